// `crosscheck plan` and `merge`: what several jobs run of one selection, and one run of what they found.
import assert from 'node:assert/strict';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {gunzipSync, gzipSync} from 'node:zlib';
import {inventoryText, junitCounts, run, temporaryFolder, write} from './harness.mjs';

const FILES = 5;
const TESTS = 20; // a file
const TOTAL = FILES * TESTS;

const jsonl = (lines) => lines.map((line) => JSON.stringify(line)).join('\n') + '\n';

const node = (i) => `test_${Math.floor(i / TESTS)}.py::TestX::test_${String(i).padStart(3, '0')}`;
const id = (i) => {
  const [file, cls, method] = node(i).split('::');
  return {file, class: cls, method, variant: {}};
};

function inventory(folder) {
  const text = inventoryText({
    suite: {name: 'bundled'},
    device: 'cpu',
    environment: {python: '3.11.2', torch_git: '', suite: 's1'},
    tests: Array.from({length: TOTAL}, (_, i) => ({node: node(i), ...id(i), line: i, quick: i < 10})),
  });
  return write(folder, 'inventory.jsonl', text);
}

function results(folder, name, header, tests) {
  const head = {
    schema: 1,
    run_id: name,
    combination: {
      backend: 'cpu',
      backend_revision: 'unknown',
      core_revision: '2.13.0',
      suite_revision: 's1',
      device: 'cpu',
      environment_digest: 'e',
    },
    command: ['crosscheck', 'run'],
    selection: 'bundled suite, all tests',
    started_at: '2026-11-30T10:00:00Z',
    finished_at: '2026-11-30T10:01:00Z',
    environment: {machine: 'x86_64'},
    ...header,
  };
  const text = jsonl([head, ...tests, {end: tests.length}]);
  const file = join(folder, `${name}.jsonl.gz`);
  writeFileSync(file, gzipSync(text));
  return file;
}

const passed = (i, more = {}) => ({
  ...id(i),
  node: node(i),
  attempt: 1,
  outcome: 'passed',
  duration_us: 1000,
  ...more,
});

function plan(folder, args, {code = 0} = {}) {
  const done = run(['plan', '--inventory', inventory(folder), '--json', ...args], {cwd: folder});
  assert.equal(done.code, code, done.out + done.err);
  return {...done, json: code === 0 ? JSON.parse(done.out) : undefined};
}

const range = ({shard}) => shard.match(/^\d+\/\d+:(\d+)-(\d+):[0-9a-f]{16}$/).slice(1).map(Number);

test('a plan holds every test once, and is the same again', (t) => {
  const folder = temporaryFolder(t);
  const {out, json, err} = plan(folder, ['--shards', '7', '--no-store']);
  assert.equal(json.shards.length, 7);
  let next = 0;
  for (const [at, shard] of json.shards.entries()) {
    const [begin, end] = range(shard);
    assert.equal(begin, next);
    assert.equal(shard.tests, end - begin);
    assert.equal(shard.index, at + 1);
    assert.ok(shard.expected_seconds > 0);
    next = end;
  }
  assert.equal(next, TOTAL);
  assert.equal(err, '');
  assert.equal(plan(folder, ['--shards', '7', '--no-store']).out, out);
  assert.ok(!existsSync(join(folder, '.crosscheck')), 'a plan makes no store');
});

test('recorded times are what shards are balanced by', (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'runs.db');
  // The first file takes as long as the four others together, start-up aside.
  const cases = Array.from({length: TOTAL}, (_, i) => {
    const [file, cls, method] = node(i).split('::');
    const seconds = i < TESTS ? 41 : 10;
    return `<testcase classname="${file.slice(0, -3)}.${cls}" name="${method}" time="${seconds}"/>`;
  });
  const junit = write(folder, 'junit.xml', `<testsuite>${cases.join('')}</testsuite>`);
  const args = ['--backend', 'mine', '--db', db];
  const imported = run(
    ['run', '--import', junit, '--inventory', inventory(folder), '--device', 'cpu', ...args],
    {cwd: folder},
  );
  assert.equal(imported.code, 0, imported.err);
  const {json} = plan(folder, ['--shards', '2', ...args]);
  assert.equal(json.tests_with_recorded_time, TOTAL);
  assert.deepEqual(json.shards.map(range), [
    [0, TESTS],
    [TESTS, TOTAL],
  ]);
  assert.deepEqual(
    json.shards.map((shard) => shard.expected_seconds),
    [826, 824],
  );
  assert.equal(plan(folder, ['--shards', '2', '--db', db]).json.tests_with_recorded_time, 0);
});

test('what a configuration does not run takes no time, and stays in the plan', (t) => {
  const folder = temporaryFolder(t);
  const config = write(
    folder,
    'tests.yaml',
    `test_suite_config:
  files:
  - path: \${TORCH_ROOT}/test/test_0.py
    unlisted_test_mode: mandatory_success
    tests: []
  - path: \${TORCH_ROOT}/test/test_1.py
    unlisted_test_mode: skip
    tests:
    - names: [TestX::test_020]
`,
  );
  const {json} = plan(folder, ['--shards', '3', '--no-store', '--config', config]);
  assert.equal(json.tests_left_out, TOTAL - TESTS - 1);
  assert.equal(range(json.shards.at(-1))[1], TOTAL);
  // 20 tests of one file and one of another, 50 ms each, and two files to import.
  const expected = json.shards.map((shard) => shard.expected_seconds);
  assert.ok(Math.max(...expected) < 7, `${expected}`);
  plan(folder, ['--shards', '2', '--no-store', '--config', 'missing.yaml'], {code: 3});
});

test('a matrix is what GitHub takes', (t) => {
  const folder = temporaryFolder(t);
  const emitted = (shards, options) =>
    plan(folder, ['--shards', String(shards), '--emit', 'github-matrix', '--no-store'], options);
  const {out, err} = emitted(100);
  assert.equal(out.trim().split('\n').length, 1, 'one line of $GITHUB_OUTPUT');
  const {include} = JSON.parse(out);
  assert.equal(include.length, 100);
  assert.equal(new Set(include.map(({shard}) => shard)).size, 100);
  assert.deepEqual(Object.keys(include[0]), ['shard', 'name', 'expected']);
  assert.ok(include.every((entry) => Object.values(entry).every((v) => typeof v === 'string')));
  assert.match(err, /100 tests/);
  // More than there are tests: no job for nothing. More than a matrix may have: refused.
  const few = emitted(256);
  assert.equal(JSON.parse(few.out).include.length, TOTAL);
  assert.match(few.err, /100 shards are enough for 100 tests/);
  assert.match(emitted(257, {code: 2}).err, /at most 256 jobs/);
  plan(folder, ['--shards', '0'], {code: 2});
  plan(folder, ['--shards', '2', '--select', 'nothing', '--no-store'], {code: 3});
  plan(folder, ['--shards', '2', '--db', join(folder, 'missing.db')], {code: 3});
});

test('shards are merged to the same bytes in any order', (t) => {
  const folder = temporaryFolder(t);
  const {json} = plan(folder, ['--shards', '4', '--no-store']);
  const files = json.shards.map((shard) => {
    const [begin, end] = range(shard);
    const tests = Array.from({length: end - begin}, (_, i) => passed(begin + i));
    return results(folder, `r${shard.index}`, {shard: shard.shard}, tests);
  });
  const merged = (given, name, {code = 0} = {}) => {
    const out = join(folder, name);
    const junit = join(folder, `${name}.xml`);
    const done = run(['merge', ...given, '--results', out, '--junit', junit], {cwd: folder});
    assert.equal(done.code, code, done.out + done.err);
    return {...done, bytes: readFileSync(out), junit};
  };
  const one = merged(files, 'one.jsonl.gz');
  assert.equal(one.err, '');
  assert.equal(junitCounts(one.junit).passed, TOTAL);
  const lines = gunzipSync(one.bytes).toString().trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(lines.length, TOTAL + 2);
  assert.deepEqual(
    lines[0].merged.map(({run_id}) => run_id),
    ['r1', 'r2', 'r3', 'r4'],
  );
  const reversed = merged([...files].reverse(), 'two.jsonl.gz');
  assert.deepEqual(reversed.bytes, one.bytes);
  assert.deepEqual(readFileSync(reversed.junit), readFileSync(one.junit));
  // Bit by bit.
  const some = merged(files.slice(2), 'some.jsonl.gz', {code: 1});
  assert.match(some.err, /missing: of shard 1\/4/);
  assert.match(some.err, /missing: of shard 2\/4/);
  assert.deepEqual(
    merged([files[1], join(folder, 'some.jsonl.gz'), files[0]], 'all.jsonl.gz').bytes,
    one.bytes,
  );
  // One that ran again keeps both attempts.
  const again = results(
    folder,
    'r9',
    {shard: json.shards[0].shard, started_at: '2026-11-30T11:00:00Z'},
    [passed(0, {outcome: 'failed'})],
  );
  const twice = merged([again, ...files], 'twice.jsonl', {code: 1});
  assert.match(twice.err, /shard 1\/4 ran 2 times \(r1, r9\)/);
  assert.equal(twice.bytes.toString().split('\n').filter((line) => line.includes(node(0))).length, 2);
});

test('what does not belong together is not merged, and nothing is written', (t) => {
  const folder = temporaryFolder(t);
  const a = results(folder, 'a', {}, [passed(0)]);
  const b = results(folder, 'b', {combination: undefined}, []);
  const other = JSON.parse(gunzipSync(readFileSync(a)).toString().split('\n')[0]).combination;
  const c = results(folder, 'c', {combination: {...other, core_revision: '2.14.0'}}, [passed(1)]);
  const cut = join(folder, 'cut.jsonl');
  writeFileSync(cut, gunzipSync(readFileSync(a)).toString().split('\n').slice(0, 2).join('\n'));
  const refused = (files, why, code = 3) => {
    const done = run(['merge', ...files, '--results', 'out.jsonl'], {cwd: folder});
    assert.equal(done.code, code, done.out + done.err);
    assert.match(done.err, why);
    assert.ok(!existsSync(join(folder, 'out.jsonl')));
  };
  refused([a, c], /a\.jsonl\.gz and .*c\.jsonl\.gz do not go together: core_revision is '2\.13\.0' in the one and '2\.14\.0'/);
  refused([a, b], /b\.jsonl\.gz: run results:1: field combination/);
  refused([a, cut], /cut\.jsonl: run results:2: the file is cut off/);
  refused([a, join(folder, 'none.jsonl')], /none\.jsonl/);
  refused([], /FILES/, 2);
});
