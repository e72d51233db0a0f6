// `crosscheck reconcile` and `crosscheck explain`: what runs saw against a test configuration, and back.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {readFileSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {crosscheck, inventoryText, python, run, temporaryFolder, write} from './harness.mjs';

const combination = {
  backend: 'dev',
  backend_revision: '1',
  core_revision: '2.13.0',
  suite_revision: 's',
  device: 'dev: one',
  environment_digest: 'e',
};

// A results file of run `number`; outcomes by method, each one outcome or one an attempt.
function results(folder, number, outcomes, changed = {}) {
  const lines = [
    {
      schema: 1,
      run_id: `run${number}`,
      combination: {...combination, ...changed},
      command: ['pytest'],
      selection: 'all',
      started_at: `2026-11-${String(number).padStart(2, '0')}T10:00:00Z`,
      finished_at: `2026-11-${String(number).padStart(2, '0')}T11:00:00Z`,
      environment: {machine: 'x86_64'},
    },
  ];
  for (const [method, given] of Object.entries(outcomes)) {
    [given].flat().forEach((outcome, index) => {
      const failed = ['failed', 'crashed', 'timed_out'].includes(outcome);
      lines.push({
        file: 'test_x.py',
        class: 'TestX',
        method,
        node: `test_x.py::TestX::${method}`,
        attempt: index + 1,
        outcome,
        duration_us: 1000,
        ...(failed && {kind: 'device_error', fingerprint: 'f00d', message: `RuntimeError: ${method} is broken`}),
      });
    });
  }
  lines.push({end: lines.length - 1});
  return write(folder, `run${number}.jsonl`, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

const config = `# what X promises
test_suite_config:
  files:
  - path: \${TORCH_ROOT}/test/test_x.py   # of X
    unlisted_test_mode: skip
    tests:
    # these pass
    - names:
      - TestX::test_good  # a comment
      - TestX::test_bad   # another
    - names: [TestX::test_better]
      mode: xfail   # for now
    - names: [TestX::test_persons]
      mode: skip
      rationale: {reason: person, decided_by: person, decided_at: 2026-01-01}
`;

const seen = {test_good: 'passed', test_bad: 'passed', test_better: 'passed', test_persons: 'passed'};

test('proposes, writes what it proposes, and then has nothing more to say', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'c.yaml', config, 0o640);
  const runs = [
    results(folder, 1, seen),
    results(folder, 2, seen),
    results(folder, 3, {...seen, test_bad: 'failed', test_new: 'environment_error'}, {core_revision: '2.14.0'}),
  ];
  const asked = ['reconcile', '--config', file, '--results', ...runs];
  const proposed = run(asked, {cwd: folder});
  assert.equal(proposed.code, 1, proposed.out + proposed.err);
  assert.equal(readFileSync(file, 'utf8'), config, 'nothing is written without --apply');
  assert.match(proposed.out, /promote: .*\n {4}TestX::test_better: xfail -> mandatory_success: passed 3 times in a row/);
  assert.match(
    proposed.out,
    /demote: .*\n {4}TestX::test_bad: mandatory_success -> xfail: device_error, failed since torch 2\.13\.0 -> 2\.14\.0 .*RuntimeError: test_bad is broken/,
  );
  assert.match(proposed.out, /new: .*\n {4}TestX::test_new: skip -> xfail: no run has shown it/);
  assert.match(proposed.out, /contradicts .*\n {4}TestX::test_persons: skip stays: a person decided this on 2026-01-01; /);
  assert.match(proposed.out, /\n3 changes proposed: 1 promote, 1 demote, 1 new; 1 against a person's decision\n$/);

  const applied = run([...asked, '--apply', '--json'], {cwd: folder});
  assert.equal(applied.code, 0, applied.err);
  const {changes, written} = JSON.parse(applied.out);
  assert.equal(written, true);
  assert.deepEqual(
    changes.map(({kind, name, after, reason}) => [kind, name, after, reason]),
    [
      ['promote', 'TestX::test_better', 'mandatory_success', 'passed_on_device'],
      ['demote', 'TestX::test_bad', 'xfail', 'device_error'],
      ['new', 'TestX::test_new', 'xfail', 'undecided'],
      ['contradiction', 'TestX::test_persons', undefined, undefined],
    ],
  );
  assert.match(changes[1].evidence[0].ref, /^run run3, 2026-11-03T10:00:00Z, torch 2\.14\.0: failed, fingerprint f00d$/);
  const text = readFileSync(file, 'utf8');
  assert.equal(statSync(file).mode & 0o777, 0o640);
  for (const kept of ['# what X promises\n', '   # of X\n', '- TestX::test_good  # a comment\n', '- TestX::test_bad   # another\n', '  # for now\n', 'decided_at: 2026-01-01}\n'])
    assert.ok(text.includes(kept), `${kept} in\n${text}`);
  assert.match(text, /decided_by: rule\n/);
  assert.equal(run(['config', 'check', file]).code, 0);

  const again = run([...asked.slice(0, 4), ...runs.reverse(), '--apply'], {cwd: folder});
  assert.equal(again.code, 0, again.out + again.err);
  assert.equal(readFileSync(file, 'utf8'), text);
  assert.match(again.out, /\nnothing to change; 1 against a person's decision\n$/);
});

test('a fall of many must-pass tests is held back until a second run or a person confirms it', (t) => {
  const folder = temporaryFolder(t);
  const names = Array.from({length: 30}, (_, i) => `test_${i}`);
  const text = `test_suite_config:\n  files:\n  - path: test_x.py\n    tests:\n    - names: [${names.map((name) => `TestX::${name}`).join(', ')}]\n`;
  const file = write(folder, 'c.yaml', text);
  const all = (outcome) => Object.fromEntries(names.map((name) => [name, outcome]));
  const good = results(folder, 1, all('passed'));
  const fall = results(folder, 2, all('failed'));
  const asked = ['reconcile', '--config', file, '--apply', '--results', good, fall];
  const held = run(asked, {cwd: folder});
  assert.equal(held.code, 1);
  assert.equal(readFileSync(file, 'utf8'), text);
  assert.match(held.out, /held back: 30 of 30 must-pass tests that were seen fail for the first time/);
  assert.match(held.out, /nothing to change; 30 held back\n$/);
  assert.equal(run([...asked, '--fall-tests', '30'], {cwd: folder}).code, 0, 'a limit is a setting');
  write(folder, 'c.yaml', text);
  assert.equal(run([...asked, '--confirm'], {cwd: folder}).code, 0);
  assert.doesNotMatch(readFileSync(file, 'utf8'), /mandatory/);
  write(folder, 'c.yaml', text);
  assert.equal(run([...asked, results(folder, 3, all('failed'))], {cwd: folder}).code, 0, 'a second run confirms');
  assert.match(readFileSync(file, 'utf8'), /mode: xfail/);
});

test('faults of machine and harness are no evidence; pass after fail is flaky', (t) => {
  const folder = temporaryFolder(t);
  const file = write(
    folder,
    'c.yaml',
    'test_suite_config:\n  files:\n  - path: test_x.py\n    tests:\n    - names: [test_a, test_b, test_c, test_d]\n',
  );
  const runs = [
    results(folder, 1, {test_a: 'environment_error', test_b: 'harness_error', test_c: 'not_run', test_d: ['failed', 'passed']}),
  ];
  const {code, out} = run(['reconcile', '--config', file, '--results', ...runs, '--json'], {cwd: folder});
  assert.equal(code, 1);
  assert.deepEqual(
    JSON.parse(out).changes.map(({kind, name, after, reason}) => [kind, name, after, reason]),
    [['demote', 'test_d', 'xfail', 'flaky']],
  );
});

test('what a test did counts, not what that means under its mode', (t) => {
  const folder = temporaryFolder(t);
  const file = write(
    folder,
    'c.yaml',
    'test_suite_config:\n  files:\n  - path: test_x.py\n    tests:\n    - {names: [test_a], mode: xfail_strict}\n    - {names: [test_b], mode: xfail}\n',
  );
  const governed = (run, mode, observed) => {
    const lines = readFileSync(run, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    for (const line of lines)
      if (line.method === mode[0]) line.governed = {mode: mode[1], basis: 'listed', place: 'c.yaml:1:1', observed};
    return write(folder, 'governed.jsonl', lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  };
  // Passes where it must fail: "failed", yet it passed. And the other way about.
  const strict = governed(results(folder, 1, {test_a: 'failed'}), ['test_a', 'xfail_strict'], 'passed');
  const once = ['reconcile', '--config', file, '--passes', '1', '--json', '--results'];
  assert.deepEqual(
    JSON.parse(run([...once, strict], {cwd: folder}).out).changes.map(({kind, name}) => [kind, name]),
    [['promote', 'test_a']],
  );
  const lenient = governed(results(folder, 2, {test_b: 'xfailed'}), ['test_b', 'xfail'], 'failed');
  assert.deepEqual(JSON.parse(run([...once, lenient], {cwd: folder}).out).changes, []);
});

test('bad input is named, and nothing is written', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'c.yaml', config);
  const one = results(folder, 1, seen);
  const bad = (...args) => run(['reconcile', ...args], {cwd: folder});
  assert.equal(bad('--config', file, '--results', write(folder, 'cut.jsonl', readFileSync(one, 'utf8').slice(0, -20))).code, 3);
  assert.equal(bad('--config', write(folder, 'no.yaml', 'a: [')).code, 3);
  assert.equal(bad('--config', file, '--results', join(folder, 'none.jsonl')).code, 3);
  assert.notEqual(bad('--config', file, '--db', join(folder, 'none.db')).code, 0);
  const other = results(folder, 2, seen, {device: 'other'});
  const mixed = bad('--config', file, '--results', one, other);
  assert.equal(mixed.code, 2);
  assert.match(mixed.err, /backend dev, device dev: one\n.*backend dev, device other/);
  assert.equal(bad('--config', file, '--results', one, other, '--device', 'other').code, 0);
  assert.equal(bad('--config', file, '--results', one, '--only', 'promoted').code, 2);
  for (const [limit, value] of [['--fall-tests', '-1'], ['--fall-percent', 'nan']])
    assert.equal(bad('--config', file, '--results', one, limit, value).code, 2, 'a limit that never holds anything back');
  const tied = write(folder, 'tied.yaml', "test_suite_config:\n  files:\n  - path: test_x.py\n    tests:\n    - {names: ['test_.*']}\n    - {names: ['.*_good'], mode: skip}\n");
  const tie = bad('--config', tied, '--results', one);
  assert.equal(tie.code, 3);
  assert.match(tie.err, /tied\.yaml:5:16/);
  assert.equal(readFileSync(file, 'utf8'), config);
});

function inventory(folder, tests) {
  const text = inventoryText({
    device: 'dev',
    environment: {torch: '2.14.0', device: {type: 'dev', count: 1, name: 'one'}, suite: 's'},
    tests: tests.map(([method, ...markers], index) => ({
      node: `test_x.py::TestX::${method}`,
      file: 'test_x.py',
      class: 'TestX',
      method,
      line: 10 + index,
      markers,
    })),
  });
  return write(folder, 'inventory.jsonl', text);
}

test('against an inventory: what is gone, what is renamed, what is new', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'c.yaml', config);
  const list = inventory(folder, [['test_good'], ['test_bed'], ['test_persons'], ['test_extra']]);
  const {code, out, err} = run(
    ['reconcile', '--config', file, '--inventory', list, '--results', results(folder, 1, {test_good: 'passed'}), '--apply'],
    {cwd: folder},
  );
  assert.equal(code, 0, err);
  assert.match(out, /gone: .*\n {4}TestX::test_bed: mandatory_success: TestX::test_bad is not collected, and this one/);
  assert.match(out, /\n {4}TestX::test_better: removed: no collected test has this name\n/);
  assert.match(out, /new: .*\n {4}TestX::test_extra: skip -> xfail: no run has shown it\n/);
  const text = readFileSync(file, 'utf8');
  assert.match(text, /- TestX::test_bed {3}# another\n/);
  assert.doesNotMatch(text, /test_better/);
  assert.equal(run(['config', 'check', file, '--inventory', list]).code, 0);
});

test('explain: the whole chain about a test, and what would change it', (t) => {
  const folder = temporaryFolder(t);
  const file = write(
    folder,
    'c.yaml',
    `test_suite_config:
  files:
  - path: test_x.py
    tests:
    - names: [TestX::test_a]
      mode: xfail
      rationale: {reason: unsupported_operator, operators: ["aten::mm"], text: No kernel., evidence: [{kind: run, ref: "run run0: failed"}], decided_by: agent, decided_at: 2026-10-01}
    - {names: [TestX::test_a], mode: skip, when: {platform: s390x}}
    - {names: ['test_.*'], mode: skip, rationale: {reason: person, decided_by: person, decided_at: 2026-01-01, expires: 2099-01-01}}
`,
  );
  const list = inventory(folder, [['test_a', 'slow'], ['test_ab'], ['test_b']]);
  const runs = [
    results(folder, 1, {test_a: ['failed', 'passed'], test_b: 'passed'}),
    results(folder, 2, {test_a: 'passed', test_b: 'passed'}, {core_revision: '2.14.0'}),
  ];
  const asked = ['--config', file, '--inventory', list, '--results', ...runs];
  const explained = run(['explain', 'TestX::test_a', ...asked], {cwd: folder});
  assert.equal(explained.code, 0, explained.err);
  for (const expected of [
    /^test_x\.py::TestX::test_a\n {2}collected {3}test_x\.py:10, as test_x\.py::TestX::test_a\n/,
    /markers slow\n/,
    /inventory\.jsonl: tree suite of \/suite, torch 2\.14\.0, device dev\n/,
    /configured {2}xfail \(listed\): 'TestX::test_a' names it, .*c\.yaml:5:15\n/,
    /unsupported_operator \(aten::mm\); decided by an agent on 2026-10-01: No kernel\.\n/,
    /evidence, run: run run0: failed\n/,
    /c\.yaml:8:16: 'TestX::test_a' says skip \(platform s390x\): its condition does not hold here\n/,
    /c\.yaml:9:16: 'test_\.\*' says skip: a more specific name goes over it\n/,
    /runs {8}run run2, 2026-11-02T10:00:00Z, torch 2\.14\.0; dev 1 on dev: one\n {16}passed\n/,
    /run run1.*\n {16}attempt 1: failed, device_error, fingerprint f00d: RuntimeError: test_a is broken\n {16}attempt 2: passed\n/,
    /then {8}it is flaky: /,
  ])
    assert.match(explained.out, expected);
  const [one] = JSON.parse(run(['explain', 'test_x.py::TestX::test_b', ...asked, '--json'], {cwd: folder}).out).tests;
  assert.deepEqual(
    [one.collected.line, one.configured.mode, one.configured.rationale.expires, one.runs.length, one.outlook],
    [12, 'skip', '2099-01-01', 2, ['a person decided on 2026-01-01, until 2099-01-01: only a person changes it, or what runs see after that day']],
  );
  const several = run(['explain', 'TEST_', ...asked], {cwd: folder});
  assert.equal(several.code, 0);
  assert.match(several.out, /^3 tests answer to 'TEST_'.*\n {2}test_x\.py::TestX::test_a: xfail, last passed\n {2}test_x\.py::TestX::test_ab: skip\n/);
  const none = run(['explain', 'test_z', ...asked], {cwd: folder});
  assert.equal(none.code, 3);
  assert.match(none.err, /no test answers to 'test_z' in /);
  // Without an inventory and a configuration: what runs know.
  const known = run(['explain', 'test_b', '--results', ...runs], {cwd: folder});
  assert.match(known.out, /no --config was given\n {2}runs {8}run run2/);
  // One more pass of two that are needed.
  const lonely = write(folder, 'd.yaml', 'test_suite_config:\n  files:\n  - path: test_x.py\n    tests: [{names: [test_b], mode: xfail}]\n');
  const left = run(['explain', 'test_b', '--config', lonely, '--results', ...runs], {cwd: folder});
  assert.match(left.out, /then {8}1 more pass in a row promotes it \(it passed 2 times in a row\)\n/);
});

// The whole way, on the reference device in real PyTorch.
test('runs on a device, into the store, and from there into the configuration', (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'runs.db');
  const file = write(
    folder,
    'c.yaml',
    `test_suite_config:
  files:
  - path: \${TORCH_DEVICE_ROOT}/test_forward_float.py
    tests:
    - names: [test_forward_mm_refdev_float32]
    - names: [test_forward]
      mode: xfail
`,
  );
  const once = (faults) => {
    const done = run(
      ['run', '--device', 'refdev', '--db', db, '--files', 'test_forward_float.py', '--select', '/TestForwardFloat.*test_forward_(mm|add|mul)_refdev_float32/', '-j', '1'],
      {
        cwd: folder,
        env: {
          CROSSCHECK_PYTHON: python,
          CI: 'true',
          REFDEV_CONFIG: write(folder, 'refdev.json', JSON.stringify({operators: 'all', faults})),
        },
      },
    );
    assert.ok(done.code < 2, done.err);
  };
  once({});
  once({'aten::mm.out': 'crash'});
  const asked = ['reconcile', '--db', db, '--config', file, '--passes', '2', '--apply', '--json'];
  const {code, out, err} = run(asked, {cwd: folder});
  assert.equal(code, 0, err);
  assert.deepEqual(
    JSON.parse(out).changes.map(({kind, name, after, reason, tests}) => [kind, name, after, reason, tests]),
    [
      ['promote', 'test_forward', 'mandatory_success', 'passed_on_device', 2],
      ['demote', 'test_forward_mm_refdev_float32', 'xfail', 'crash', 1],
    ],
  );
  assert.equal(run(['config', 'check', file]).code, 0);
  assert.deepEqual(JSON.parse(run(asked, {cwd: folder}).out).changes, []);
  const explained = run(['explain', 'test_forward_mm_refdev_float32', '--db', db, '--config', file], {cwd: folder});
  assert.equal(explained.code, 0, explained.err);
  assert.match(explained.out, /configured {2}xfail \(listed\): 'test_forward_mm_refdev_float32' names it/);
  assert.match(explained.out, /crash; decided by a rule on /);
  assert.match(explained.out, /runs {8}run \w+.*\n {16}crashed, signal, fingerprint \w+: the process died.*\n {14}run \w+.*\n {16}passed\n/);
  assert.match(explained.out, /3 more passes in a row promote it/);
});

test('what somebody writes into a file meanwhile is not written over', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'c.yaml', config);
  inventory(folder, [['test_good'], ['test_bad'], ['test_better'], ['test_persons']]);
  results(folder, 1, {...seen, test_bad: 'failed'});
  // The shell opens the pipe once the program does, which has read the configuration by then.
  const script = `mkfifo pipe
    "$1" reconcile --config c.yaml --results run1.jsonl --inventory pipe --apply & exec 3>pipe
    echo '# of a person' >> c.yaml; cat inventory.jsonl >&3; exec 3>&-; wait $!`;
  const done = spawnSync('sh', ['-c', script, 'sh', crosscheck], {cwd: folder, encoding: 'utf8'});
  assert.equal(done.status, 4, done.stdout + done.stderr);
  assert.match(done.stderr, /c\.yaml was changed since it was read/);
  assert.equal(readFileSync(file, 'utf8'), `${config}# of a person\n`);
});
