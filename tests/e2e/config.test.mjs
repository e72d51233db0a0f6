// The test configuration's commands, on files: what they print, what they write, and their exit codes.
import assert from 'node:assert/strict';
import {readFileSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {inventoryText, run, temporaryFolder, write} from './harness.mjs';

const good = `# views
test_suite_config:
    files:
    - path: \${TORCH_ROOT}/test/test_view.py
      tests:
      - names: [TestView::test_a, TestView::test_b] # both
        mode: xfail
      - names: [TestView::test_a]
        mode: skip
        when: {platform: s390x}
    global:
        supported_ops: [add, mull]
`;

function inventory(tests) {
  return inventoryText({
    device: 'refdev',
    environment: {torch: '2.13.0+cpu', facts: {machine: 's390x'}},
    tests: tests.map(([file, cls, method]) => ({
      node: `${file}::${cls}PRIVATEUSE1::${method}_refdev`,
      file,
      class: cls,
      method,
      variant: {device: 'refdev:0'},
    })),
  });
}

test('check: a file that is right, and all that is wrong with another', (t) => {
  const folder = temporaryFolder(t);
  const right = write(folder, 'right.yaml', good);
  const {code, out} = run(['config', 'check', right]);
  assert.equal(code, 0);
  assert.match(out, /right\.yaml: ok; listed: 2 xfail, 1 skip\n/);
  const wrong = write(
    folder,
    'wrong.yaml',
    'test_suite_config:\n  files:\n  - path: a.py\n    unlisted_test_mod: skip\n' +
      '    tests:\n    - names: [A::t]\n    - {names: [A::t], mode: skipp}\n',
  );
  const bad = run(['config', 'check', right, wrong]);
  assert.equal(bad.code, 3);
  assert.match(bad.out, /wrong\.yaml:4:5: .*'unlisted_test_mod'\n {2}remedy: did you mean 'unlisted_test_mode'\?/);
  assert.match(bad.out, /wrong\.yaml:7:29: .*'skipp'/);
  assert.match(bad.out, /wrong\.yaml:7:16: 'A::t' is listed twice\n {2}and at: .*wrong\.yaml:6:15/);
  assert.match(bad.out, /wrong\.yaml: 3 errors\n/);
  const {ok, files} = JSON.parse(run(['config', 'check', right, wrong, '--json']).out);
  assert.equal(ok, false);
  assert.deepEqual(
    files.map((file) => file.ok),
    [true, false],
  );
  assert.deepEqual(
    files[1].findings.map(({kind, line, column}) => [kind, line, column]),
    [
      ['unknown_key', 4, 5],
      ['duplicate', 7, 16],
      ['bad_value', 7, 29],
    ],
  );
});

test('check: against collected tests and operators', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'c.yaml', good);
  const list = write(
    folder,
    'inventory.jsonl',
    inventory([
      ['test_other.py', 'TestO', 'test_o'],
      ['test_view.py', 'TestView', 'test_a'],
      ['test_view.py', 'TestView', 'test_bb'],
    ]),
  );
  const operators = write(folder, 'operators.txt', 'aten::add.Tensor\nmul\n');
  const asked = ['config', 'check', file, '--inventory', list, '--operators', operators];
  const {code, out} = run(asked);
  assert.equal(code, 3);
  assert.match(out, /c\.yaml:6:35: 'TestView::test_b' is not collected/);
  assert.match(out, /c\.yaml:12:30: 'mull' is not among the operators\n {2}remedy: did you mean 'mul'\?/);
  assert.match(out, /note: 1 collected tests are not listed, and are skip: TestView::test_bb/);
  assert.match(out, /note: test_other\.py: 1 collected tests are governed by no file entry/);
  const [checked] = JSON.parse(run([...asked, '--json']).out).files;
  assert.deepEqual(checked.basis, {ungoverned: 1, unlisted: 1, listed: 1});
  assert.deepEqual(checked.governed, {skip: 2});
  assert.deepEqual(Object.values(checked.unlisted), [['TestView::test_bb']]);
  // Elsewhere, the other entry decides.
  const [elsewhere] = JSON.parse(run([...asked, '--json', '--platform', 'x86_64']).out).files;
  assert.deepEqual(elsewhere.governed, {xfail: 1, skip: 1});
});

test('check: files that cannot be read', (t) => {
  const folder = temporaryFolder(t);
  const missing = run(['config', 'check', join(folder, 'no.yaml')]);
  assert.equal(missing.code, 3);
  assert.match(missing.out, /cannot read .*no\.yaml/);
  const file = write(folder, 'c.yaml', good);
  const broken = write(folder, 'inventory.jsonl', '{"schema":1}\n');
  assert.equal(run(['config', 'check', file, '--inventory', broken]).code, 3);
  assert.equal(run(['config', 'check', file, '--torch', 'new']).code, 0, 'asked for by nothing');
  assert.equal(
    run(['config', 'check', file, '--torch', 'new', '--inventory', broken]).code,
    2,
    'a version is a version',
  );
});

test('fmt: once, keeping comments and permissions; --check changes nothing', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'c.yaml', good, 0o600);
  assert.deepEqual(
    [run(['config', 'fmt', '--check', file]).code, readFileSync(file, 'utf8')],
    [1, good],
  );
  assert.equal(run(['config', 'fmt', file]).out, `${file}\n`);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(
    readFileSync(file, 'utf8'),
    `# views
test_suite_config:
  files:
    - path: \${TORCH_ROOT}/test/test_view.py
      tests:
        - names: [TestView::test_a, TestView::test_b]  # both
          mode: xfail
        - names: [TestView::test_a]
          mode: skip
          when: {platform: s390x}
  global:
    supported_ops: [add, mull]
`,
  );
  const again = run(['config', 'fmt', '--check', file]);
  assert.deepEqual([again.code, again.out], [0, '']);
  assert.equal(run(['config', 'fmt', write(folder, 'no.yaml', 'a: [')]).code, 3);
});

test('merge, diff: what agrees is one file, what does not is shown in both places', (t) => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'a.yaml', good);
  const other = write(folder, 'b.yaml', good.replace('mode: xfail', 'mode: xfail_strict'));
  const {code, err} = run(['config', 'merge', file, other]);
  assert.equal(code, 3);
  assert.match(err, /b\.yaml:6:17: 'TestView::test_a' is xfail_strict here and xfail there\n {2}and at: .*a\.yaml:6:17/);
  const merged = join(folder, 'm.yaml');
  assert.equal(run(['config', 'merge', file, file, '-o', merged]).code, 0);
  const same = run(['config', 'diff', file, merged]);
  assert.deepEqual([same.code, same.out], [0, '']);
  const differs = run(['config', 'diff', file, other]);
  assert.equal(differs.code, 1);
  assert.match(differs.out, /^\S+test_view\.py TestView::test_a: xfail -> xfail_strict\n\S+ TestView::test_b: xfail -> xfail_strict\n$/);
  const {changes} = JSON.parse(run(['config', 'diff', file, other, '--json']).out);
  assert.deepEqual(
    changes.map(({what, name, after}) => [what, name, after]),
    [
      ['test', 'TestView::test_a', 'xfail_strict'],
      ['test', 'TestView::test_b', 'xfail_strict'],
    ],
  );
  const list = write(folder, 'i.jsonl', inventory([['test_view.py', 'TestView', 'test_b']]));
  assert.match(
    run(['config', 'diff', file, other, '--inventory', list]).out,
    /^test_view\.py TestView::test_b\{"device":"refdev:0"\}: xfail -> xfail_strict\n$/,
  );
});

test('export: conditions and includes resolved', (t) => {
  const folder = temporaryFolder(t);
  const file = write(
    folder,
    'a.yaml',
    good.replace('    global:\n        supported_ops: [add, mull]\n', '    include: [shared.yaml]\n'),
  );
  write(folder, 'shared.yaml', 'test_suite_config: {global: {supported_ops: [add]}}\n');
  const asked = run(['config', 'export', file, '--format', 'plain']);
  assert.equal(asked.code, 3);
  assert.match(asked.err, /a\.yaml:10:15: .*\n {2}remedy: say which one is meant with --platform/);
  const there = ['config', 'export', file, '--platform', 's390x', '--format'];
  assert.equal(
    run([...there, 'plain']).out,
    'xfail test/test_view.py::TestView::test_b\nskip test/test_view.py::TestView::test_a\n',
  );
  assert.equal(run([...there, 'plain', '--mode', 'skip']).out, 'test/test_view.py::TestView::test_a\n');
  const {out} = run([...there, 'spyre']);
  assert.doesNotMatch(out, /when|include/);
  assert.match(out, /supported_ops:\n {6}- add\n/);
  assert.equal(run(['config', 'check', write(folder, 'e.yaml', out)]).code, 0);
  assert.equal(run([...there, 'xml']).code, 2);
});

test("import: torch_npu's list", (t) => {
  const folder = temporaryFolder(t);
  const list = write(
    folder,
    'disabled.json',
    JSON.stringify({
      'test_a_refdev (__main__.TestViewPRIVATEUSE1)': ['too slow', ['910A']],
      'test_no (__main__.TestNo)': ['', ['']],
    }),
  );
  const command = ['config', 'import', '--format', 'torch_npu', list];
  assert.equal(run(command).code, 2);
  const tests = write(folder, 'i.jsonl', inventory([['test_view.py', 'TestView', 'test_a']]));
  const {code, out, err} = run([...command, '--inventory', tests]);
  assert.equal(code, 0);
  assert.match(err, /TestNo::test_no: not in the inventory, left out\n1 tests imported, 1 left out\n/);
  const file = write(folder, 'npu.yaml', out);
  const checked = run(['config', 'check', '--inventory', tests, '--device', '910A', file, '--json']);
  assert.equal(checked.code, 0);
  assert.deepEqual(JSON.parse(checked.out).files[0].governed, {skip: 1});
  const wrong = run(['config', 'import', '--format', 'torch_npu', '--path', 'x.py', write(folder, 'w.json', '{"a": 1}')]);
  assert.equal(wrong.code, 3);
  assert.match(wrong.err, /w\.json: "a": no test can be called so/);
});
