// `crosscheck run` on the reference device in real PyTorch, with faults of the device, of tests and of the environment.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {junitCounts, long, python, run, temporaryFolder, write} from './harness.mjs';

// Few tests, and among them those whose operator is made to fail.
const SELECT = '/TestForwardFloat.*test_forward_(mm|add|mul|sub|exp)_refdev_float32/';

function runTests(t, {config = {operators: 'all'}, args = [], env = {}} = {}) {
  const folder = temporaryFolder(t);
  const junit = join(folder, 'junit.xml');
  const results = join(folder, 'results.jsonl');
  const done = run(
    [
      'run',
      '--device',
      'refdev',
      '--db',
      join(folder, 'runs.db'),
      '--junit',
      junit,
      '--results',
      results,
      '--select',
      SELECT,
      '--json',
      ...args,
    ],
    {
      cwd: folder,
      env: {
        REFDEV_CONFIG: write(folder, 'refdev.json', JSON.stringify(config)),
        CROSSCHECK_PYTHON: python,
        CI: 'true',
        ...env,
      },
    },
  );
  const lines = existsSync(results)
    ? readFileSync(results, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
        .slice(1, -1)
    : [];
  const of = (op) => lines.filter((line) => line.variant?.op === op);
  return {...done, folder, junit, results, lines, of};
}

test('a healthy device: everything passes, in every report alike', (t) => {
  const {code, out, err, junit, lines} = runTests(t);
  assert.equal(code, 0, out + err);
  assert.ok(lines.length >= 5, `${lines.length} tests`);
  assert.ok(lines.every(({outcome}) => outcome === 'passed'));
  assert.equal(junitCounts(junit).passed, lines.length);
});

test('an operator that kills the process: its test crashed, the others are reported', (t) => {
  const {code, lines, of, junit} = runTests(t, {
    config: {operators: 'all', faults: {'aten::mm.out': 'crash'}},
  });
  assert.equal(code, 1);
  for (const {outcome, kind, message} of of('mm')) {
    assert.equal(outcome, 'crashed');
    assert.equal(kind, 'signal');
    assert.match(message, /signal|SIG/);
  }
  assert.equal(of('mm').length, 1);
  const others = lines.filter(({variant}) => variant.op !== 'mm');
  assert.ok(others.length >= 4);
  assert.ok(others.every(({outcome}) => outcome === 'passed'));
  assert.equal(junitCounts(junit).failed, 1);
});

test('an operator that hangs: its test timed out, the others are reported', (t) => {
  const {code, lines, of} = runTests(t, {
    config: {operators: 'all', faults: {'aten::mm.out': 'hang'}},
    args: ['--timeout', '5'],
  });
  assert.equal(code, 1);
  assert.deepEqual(
    of('mm').map(({outcome, kind}) => ({outcome, kind})),
    [{outcome: 'timed_out', kind: 'timeout'}],
  );
  assert.ok(lines.filter(({variant}) => variant.op !== 'mm').every((l) => l.outcome === 'passed'));
});

test('an operator that computes wrongly: failed, with the numbers of the mismatch', (t) => {
  const {code, of} = runTests(t, {
    config: {operators: 'all', faults: {'aten::mm.out': 'wrong_value'}},
  });
  assert.equal(code, 1);
  const [{outcome, kind, mismatch, fingerprint}] = of('mm');
  assert.equal(outcome, 'failed');
  assert.equal(kind, 'numerical_mismatch');
  assert.ok(mismatch.absolute > 0);
  assert.ok(fingerprint.length > 0);
});

test('an operator that is missing: failed, and called unsupported', (t) => {
  const {code, of} = runTests(t, {config: {operators: ['aten::add.out', 'aten::_copy_from']}});
  assert.equal(code, 1);
  assert.deepEqual(
    of('mm').map(({outcome, kind}) => ({outcome, kind})),
    [{outcome: 'failed', kind: 'unsupported_operator'}],
  );
});

test('torch is missing: exit code 4 that names it and what installs it, and nothing is kept', (t) => {
  const folder = temporaryFolder(t);
  const bare = join(folder, 'bare');
  const made = spawnSync(python, ['-m', 'venv', '--without-pip', bare]);
  assert.equal(made.status, 0);
  const {code, err, results, junit} = runTests(t, {args: ['--python', join(bare, 'bin/python')]});
  assert.equal(code, 4);
  assert.match(err, /torch/);
  assert.match(err, /"remedy":.*install/);
  assert.ok(!existsSync(results) && !existsSync(junit));
});

test('an interpreter that does not exist: exit code 4 that names it', (t) => {
  const {code, err} = runTests(t, {args: ['--python', '/nonexistent/python']});
  assert.equal(code, 4);
  assert.match(err, /\/nonexistent\/python/);
});

test('a file that the bundled suite does not have is bad input, with the nearest', (t) => {
  const {code, err, results} = runTests(t, {args: ['--files', 'test_forward_flaot.py']});
  assert.equal(code, 3);
  assert.match(err, /bundled suite has no test_forward_flaot\.py/);
  assert.match(err, /test_forward_float\.py/);
  assert.ok(!existsSync(results));
});

test('an inventory of another torch is refused with both versions named', (t) => {
  const folder = temporaryFolder(t);
  const inventory = join(folder, 'inventory.jsonl');
  const env = {CROSSCHECK_PYTHON: python};
  const collected = run(
    ['collect', '--device', 'refdev', '--files', 'test_forward_float.py', '-o', inventory],
    {env, cwd: folder},
  );
  assert.equal(collected.code, 0, collected.err);
  const text = readFileSync(inventory, 'utf8');
  const version = JSON.parse(text.split('\n')[0]).environment.torch;
  const good = runTests(t, {args: ['--inventory', inventory]});
  assert.equal(good.code, 0, good.err);
  writeFileSync(inventory, text.replace(`"torch":"${version}"`, '"torch":"2.12.0"'));
  const {code, err, results, junit} = runTests(t, {args: ['--inventory', inventory]});
  assert.equal(code, 4);
  assert.ok(err.includes(version), err);
  assert.ok(err.includes('2.12.0'), err);
  assert.ok(!existsSync(results) && !existsSync(junit));
});

test('the bundled suite has thousands of tests for the reference device', (t) => {
  const folder = temporaryFolder(t);
  const {code, out, err} = run(
    ['collect', '--device', 'refdev', '-o', join(folder, 'all.jsonl'), '--json'],
    {env: {CROSSCHECK_PYTHON: python}, cwd: folder},
  );
  assert.equal(code, 0, err);
  const {tests, quick} = JSON.parse(out);
  assert.ok(tests >= 2000, `${tests} tests`);
  assert.ok(quick > 100 && quick < tests / 4, `${quick} quick ones`);
});

test(
  'crash after crash: each costs one test',
  {skip: !long && 'CROSSCHECK_LONG=1 runs it'},
  (t) => {
    const operators = ['mm', 'add', 'mul', 'sub', 'exp'];
    const {lines} = runTests(t, {
      config: {
        operators: 'all',
        faults: Object.fromEntries(operators.map((op) => [`aten::${op}.out`, 'crash'])),
      },
    });
    assert.ok(lines.length >= 5);
    for (const {outcome} of lines) assert.equal(outcome, 'crashed');
  },
);
