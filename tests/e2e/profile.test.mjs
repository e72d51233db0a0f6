// `crosscheck profile`, through the real binary: from a backend's source to a profile that is checked.
import assert from 'node:assert/strict';
import {mkdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {run, temporaryFolder, write} from './harness.mjs';

const device = 'examples/reference_device';

test('what is detected begins a profile, which is good and shown as it is', t => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'crosscheck.yaml');
  const detected = run(['profile', 'detect', device, '--write', file, '--json']);
  assert.equal(detected.code, 0, detected.err);
  const found = JSON.parse(detected.out);
  assert.equal(found.device, 'refdev');
  const kernels = found.points.find(({point}) => point === 'dispatcher_kernels').evidence[0];
  assert.equal(kernels.file, 'src/kernels.cc');
  assert.equal(
    readFileSync(join(device, kernels.file), 'utf8').split('\n')[kernels.line - 1].trim(),
    kernels.text,
  );

  for (const name of ['python', 'src']) mkdirSync(join(folder, name));
  write(folder, 'README.md', 'x');
  const checked = run(['profile', 'check', file, '--json']);
  assert.equal(checked.code, 0, checked.out);
  // The folders are empty, so that nothing in them shows what the profile lists.
  const {ok, findings, notes} = JSON.parse(checked.out);
  assert.deepEqual({ok, findings}, {ok: true, findings: []});
  assert.ok(notes.some(note => note.endsWith('lists amp, of which the source shows nothing')));

  const shown = JSON.parse(run(['profile', 'show', file, '--json']).out);
  assert.equal(shown.device, 'refdev');
  assert.deepEqual(
    shown.extension_points,
    found.points.map(({point}) => point).sort(),
  );
  const again = run(['profile', 'detect', device, '--write', file]);
  assert.equal(again.code, 3);
  assert.match(again.err, /crosscheck.yaml is there already/);
});

test('mistakes are named with their places, all of them: exit code 3', t => {
  const folder = temporaryFolder(t);
  const file = write(folder, 'p.yaml', 'name: x\ndevice: y\nextension_points: [amq]\nsources: [z]\n');
  const {code, out} = run(['profile', 'check', file]);
  assert.equal(code, 3);
  assert.match(out, /p\.yaml:3:20: extension_points: there is no 'amq'\n {2}remedy: use one of device_name/);
  assert.match(out, /p\.yaml:4:11: there is no 'z' beside the profile\n/);
  assert.match(out, /2 errors\n$/);
  assert.equal(run(['profile', 'show', file]).code, 3);
  assert.equal(run(['profile', 'check', join(folder, 'none.yaml')]).code, 3);
});

test('source that extends nothing, and none: exit codes 1 and 3; patterns of one’s own count', t => {
  const folder = temporaryFolder(t);
  write(folder, 'a.cc', 'int main() { MINE(); }\n');
  assert.equal(run(['profile', 'detect', folder]).code, 1);
  assert.equal(run(['profile', 'detect', join(folder, 'none')]).code, 3);
  const patterns = write(folder, 'p.yaml', 'points:\n  hooks: {found_by: [{in: cpp, call: MINE}]}\n');
  const {code, out} = run(['profile', 'detect', folder, '--patterns', patterns]);
  assert.equal(code, 0);
  assert.match(out, /hooks: [^\n]*\n {2}a\.cc:1 {2}int main/);
});

test('what a profile does not use is dropped from a tree of tests, each with its reason', t => {
  const folder = temporaryFolder(t);
  const tree = join(folder, 'test');
  mkdirSync(join(tree, 'distributed'), {recursive: true});
  write(tree, 'distributed/test_store.py', 'class TestStore:\n    def test_set(self): pass\n');
  write(
    tree,
    'test_x.py',
    'import torch\nfrom common import onlyCUDA\nclass TestX:\n' +
      '    def test_plain(self): torch.add(1, 2)\n' +
      '    def test_gradient(self): torch.ones(1).backward()\n' +
      '    @onlyCUDA\n    def test_cuda(self): pass\n' +
      '    def test_script(self): torch.jit.script(f)\n',
  );
  const index = (name, points, scope) => {
    const memory = join(folder, name + '.db');
    const file = write(
      folder,
      name + '.yaml',
      `name: ${name}\ndevice: npu\nextension_points: [${points}]\nscope: {without: [${scope}]}\n`,
    );
    const {code, out, err} = run(['index', tree, '--memory', memory, '--profile', file, '--json']);
    assert.equal(code, 0, err);
    return {memory, ...JSON.parse(out)};
  };
  const trains = index('trains', 'dispatcher_kernels, autograd', '');
  assert.deepEqual(trains.dropped, {no_distributed: 1, only_cuda: 1});
  assert.equal(trains.kept, 3);
  const infers = index('infers', 'dispatcher_kernels, distributed', 'jit');
  assert.deepEqual(infers.dropped, {no_autograd: 1, only_cuda: 1, without_jit_test: 1});
  const {out} = run([
    ...['index', '--memory', infers.memory],
    ...['--explain', 'test_x.py::TestX::test_gradient'],
  ]);
  assert.match(out, /is dropped: the test asks for gradients[^]*found: symbol backward/);
  const broken = write(folder, 'broken.yaml', 'name: x\ndevice: y\nextension_points: [amq]\n');
  assert.equal(run(['index', tree, '--memory', trains.memory, '--profile', broken]).code, 3);
});
