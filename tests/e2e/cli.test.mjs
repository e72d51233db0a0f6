// The command line as documented: help with an example everywhere, one table of exit codes.
import assert from 'node:assert/strict';
import {mkdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {run, temporaryFolder, write} from './harness.mjs';

function subcommands(path) {
  const {code, out} = run([...path, '--help']);
  assert.equal(code, 0, `${path.join(' ')} --help`);
  const names = [];
  let inside = false;
  for (const line of out.split('\n')) {
    if (/^subcommands:/i.test(line)) inside = true;
    else if (inside && /^ {2}\S/.test(line)) names.push(line.trim().split(/[\s,]/)[0]);
    else if (inside && /^\S/.test(line)) inside = false;
  }
  return {out, names};
}

function* commands(path = []) {
  const {out, names} = subcommands(path);
  if (path.length > 0) yield {path, out, leaf: names.length === 0};
  for (const name of names) yield* commands([...path, name]);
}

const all = [...commands()];

test('there are commands', () => {
  const names = all.map(({path}) => path.join(' '));
  for (const name of ['serve', 'run', 'collect', 'report start', 'report finish', 'version']) {
    assert.ok(names.includes(name), `${name} is among ${names.join(', ')}`);
  }
});

for (const {path, out, leaf} of all) {
  const name = path.join(' ');
  test(`${name}: --help has an example that uses it`, () => {
    assert.match(out, new RegExp(`Examples?:\\n(.*\\n)*?\\s+crosscheck ${path[0]}`));
  });
  test(`${name}: --help says what it does`, () => assert.ok(out.trim().split('\n')[0].length > 10));
  if (leaf) {
    test(`${name}: an unknown option is exit code 2 and explained`, () => {
      const {code, out, err} = run([...path, '--no-such-option']);
      assert.equal(code, 2);
      assert.equal(out, '');
      assert.match(err, /no-such-option|is required/);
    });
  }
}

test('no command, an unknown one, a wrong level: exit code 2', () => {
  assert.equal(run([]).code, 2);
  const unknown = run(['no-such-command']);
  assert.equal(unknown.code, 2);
  assert.match(unknown.err, /no command 'no-such-command'[^]*use one of allowlist, collect/);
  assert.match(run(['colect', '--device', 'cpu']).err, /'colect'[^]*did you mean 'collect'/);
  assert.equal(run(['version', '--log-level', 'loud']).code, 2);
});

test('a number of processes that is none, one file for two outputs: exit code 2', () => {
  for (const jobs of ['0', '-1', '1.5', 'x', '99999999999999999999', '1025']) {
    const {code, err} = run(['run', '-j', jobs]);
    assert.equal(code, 2, jobs);
    assert.match(err, /--jobs/);
  }
  for (const [option, expected] of [
    ['--timeout', /--timeout: expected seconds from 0\.001 to 10000000\n/],
    ['--file-timeout', /--file-timeout: expected seconds from 0\.001 to 10000000, or 0 for no limit/],
  ]) {
    const {code, err} = run(['run', option, '-1']);
    assert.equal(code, 2);
    assert.match(err, expected);
  }
  const {code, err} = run(['run', '--junit', 'out', '--results', 'out']);
  assert.equal(code, 2);
  assert.match(err, /--junit and --results name one file: out/);
});

test('what is joined is not written over', (t) => {
  const folder = temporaryFolder(t);
  const part = write(folder, 'part.jsonl', 'not read\n');
  for (const output of ['--results', '--junit']) {
    const rest = output === '--junit' ? ['--results', join(folder, 'all.jsonl')] : [];
    const done = run(['merge', part, output, join(folder, '.', 'part.jsonl'), ...rest]);
    assert.equal(done.code, 2, done.err);
    assert.match(done.err, /would be replaced/);
    assert.equal(readFileSync(part, 'utf8'), 'not read\n');
  }
});

test('a limit in seconds says what it may be', () => {
  for (const [option, value] of [
    ['--timeout', '1e308'],
    ['--timeout', '1e-320'],
    ['--timeout', 'nan'],
    ['--timeout', '-1'],
    ['--file-timeout', '1e-9'],
    ['--collect-timeout', '0'],
  ]) {
    const done = run(['run', option, value]);
    assert.equal(done.code, 2, `${option} ${value}`);
    assert.match(done.err, /0\.001\d* to 10000000/, `${option} ${value}`);
  }
});

test('--help names the exit codes', () => {
  const {out} = run(['--help']);
  for (const code of [0, 1, 2, 3, 4, 5]) assert.match(out, new RegExp(`\\b${code} \\w`));
});

test('version, for people and machines', () => {
  assert.match(run(['version']).out, /^crosscheck \d+\.\d+\.\d+\n$/);
  assert.deepEqual(run(['--version']), run(['version']));
  assert.match(JSON.parse(run(['version', '--json']).out).version, /^\d+\.\d+\.\d+$/);
});

test('output that cannot be written is exit code 4', () => {
  const {code, err} = run(['version'], {stdout: '/dev/full'});
  assert.equal(code, 4);
  assert.match(err, /standard output/);
});

test('report finish --dry-run names results that cannot be read', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'results.jsonl.gz', 'no gzip');
  const event = write(
    folder,
    'event.json',
    JSON.stringify({
      client_payload: {event_type: 'pull_request', delivery_id: 'd', payload: {action: 'opened'}},
    }),
  );
  const env = {
    GITHUB_EVENT_PATH: event,
    GITHUB_WORKFLOW: 'CI',
    GITHUB_JOB: 'test',
    GITHUB_RUN_ID: '1',
    GITHUB_RUN_ATTEMPT: '1',
    GITHUB_REPOSITORY: 'org/repo',
    GITHUB_SERVER_URL: 'https://github.com',
    CROSSCHECK_RELAY_URL: 'http://127.0.0.1:1',
  };
  for (const results of [file, join(folder, 'missing'), folder]) {
    const done = run(['report', 'finish', '--dry-run', '--results', results], {env});
    assert.ok([3, 4].includes(done.code), `${results}: ${done.code}`);
    assert.match(JSON.parse(done.out).workflow.conclusion, /^failure$/);
    assert.ok(done.err.includes(results), done.err);
  }
});

test('files outside the suite are bad input, however they are written', (t) => {
  const folder = temporaryFolder(t);
  const suite = join(folder, 'suite');
  mkdirSync(suite);
  const file = write(folder, 'test_x.py', '');
  for (const name of ['../test_x.py', file, 'down/../../test_x.py']) {
    mkdirSync(join(suite, 'down'), {recursive: true});
    const done = run(['collect', '--suite', suite, '--files', name, '-o', join(folder, 'i.jsonl')]);
    assert.equal(done.code, 3, done.err);
    assert.match(done.err, /--files: .* does not lie in /);
  }
});
