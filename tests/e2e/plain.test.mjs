// `crosscheck run` against plain pytest, test by test: the bundled suite on the reference device, and PyTorch 1.13.1's
// own tests on Debian's torch (scripts/fetch-test-trees). A part here, all of it in `make deep`.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {readFileSync, readdirSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {long, python, root, run, temporaryFolder, write} from './harness.mjs';

// What pytest says of each test, by node id. A file at a time, as upstream runs them: what instantiates the second
// file's classes in a process gives them other names.
function plainOutcomes(folder, {files, ...what}) {
  return new Map(files.flatMap((file) => plainOutcomesOf(folder, {file, ...what})));
}

function plainOutcomesOf(folder, {interpreter, tests, file, keyword, device, env = {}}) {
  const out = join(folder, 'plain.jsonl');
  // By its path: with -m every OpInfo test takes 6 ms more (docs/probe-protocol.md).
  const where = spawnSync(interpreter, ['-c', 'import pytest; print(pytest.__path__[0])'], {encoding: 'utf8'});
  assert.equal(where.status, 0, where.stderr);
  const args = [join(where.stdout.trim(), '__main__.py'), '-q', '-p', 'no:cacheprovider', '-p', 'plain_outcomes', '--rootdir', tests];
  const done = spawnSync(
    interpreter,
    [...args, ...(device === 'cpu' ? [] : ['-p', device]), ...(keyword ? ['-k', keyword] : []), file],
    {
      cwd: tests,
      encoding: 'utf8',
      maxBuffer: 1 << 30,
      env: {
        ...process.env,
        PLAIN_OUTCOMES: out,
        PYTHONPATH: [join(root, 'tests/e2e'), join(root, 'build/refdev')].join(':'),
        PYTHONDONTWRITEBYTECODE: '1',
        PYTORCH_TESTING_DEVICE_ONLY_FOR: device === 'cpu' ? 'cpu' : 'privateuse1',
        ...env,
      },
    },
  );
  // 1: tests failed.
  assert.ok(done.status === 0 || done.status === 1, done.stdout + done.stderr);
  return readLines(out);
}

function readLines(file) {
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function ourOutcomes(folder, {interpreter, suite, files, keyword, device, env = {}}) {
  const results = join(folder, 'results.jsonl');
  const done = run(
    ['run', '--no-store', '--results', results, '--device', device, '--python', interpreter]
      .concat(suite ? ['--suite', suite] : [])
      .concat(['--files', ...files], keyword ? ['--select', keyword] : []),
    {cwd: folder, timeout: 3_600_000, env: {CI: 'true', ...env}},
  );
  assert.ok(done.code === 0 || done.code === 1, done.out + done.err);
  return new Map(
    readLines(results)
      .slice(1, -1)
      .map(({node, outcome}) => [node, outcome]),
  );
}

function assertEqualTestByTest(ours, plain) {
  const nodes = [...new Set([...ours.keys(), ...plain.keys()])].sort();
  const different = nodes
    .filter((node) => ours.get(node) !== plain.get(node))
    .map((node) => `${node}: crosscheck ${ours.get(node) ?? 'has none'}, pytest ${plain.get(node) ?? 'has none'}`);
  assert.deepEqual(different, []);
}

const bundled = join(root, 'probe/src/crosscheck_probe/suite');
const files = long
  ? readdirSync(bundled).filter((name) => name.startsWith('test_'))
  : ['test_views.py', 'test_modules.py'];
for (const [name, device, seen] of [
  ['all operators', {operators: 'all'}, 'passed'],
  ['few operators', {operators: {set: 'core'}}, 'failed'],
]) {
  test(`the bundled suite on a device with ${name}`, (t) => {
    const folder = temporaryFolder(t);
    const env = {REFDEV_CONFIG: write(folder, 'refdev.json', JSON.stringify(device))};
    const what = {interpreter: python, device: 'refdev', files, env};
    const plain = plainOutcomes(folder, {...what, tests: bundled});
    assert.ok([...plain.values()].includes(seen), `of ${plain.size} tests none ${seen}`);
    assertEqualTestByTest(ourOutcomes(folder, what), plain);
  });
}

function tree() {
  const found = spawnSync(join(root, 'scripts/fetch-test-trees'), ['--print'], {encoding: 'utf8'});
  if (found.status !== 0) return {skip: found.stderr.trim()};
  const [tests, interpreter] = found.stdout.trim().split('\n');
  return {tests, interpreter};
}

for (const [file, atLeast] of [
  ['test_view_ops.py', 250],
  ['test_tensor_creation_ops.py', 500],
  ['test_binary_ufuncs.py', 7000],
]) {
  const {tests, interpreter, skip = false} = tree();
  const whole = long || file === 'test_view_ops.py';
  test(`upstream's own ${file}, ${whole ? 'whole' : 'in part'}`, {skip}, (t) => {
    const folder = temporaryFolder(t);
    const keyword = whole ? undefined : '_cpu_int32';
    const what = {interpreter, device: 'cpu', files: [file], keyword};
    const plain = plainOutcomes(folder, {...what, tests});
    if (whole) assert.ok(plain.size >= atLeast, `${plain.size} tests`);
    assertEqualTestByTest(ourOutcomes(folder, {...what, suite: tests}), plain);
  });
}
