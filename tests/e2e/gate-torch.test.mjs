// `crosscheck gate` on real PyTorch: the same one twice, and candidates made worse on purpose, which it must find by itself.
import assert from 'node:assert/strict';
import {chmodSync, mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {long, python, run, temporaryFolder, write} from './harness.mjs';

// The same interpreter with `patch` carried out before anything else; it may use torch.
function candidate(folder, patch) {
  mkdirSync(join(folder, 'patch'));
  write(join(folder, 'patch'), 'sitecustomize.py', patch);
  const script = `#!/bin/sh\nPYTHONPATH='${join(folder, 'patch')}':"$PYTHONPATH" exec '${python}' "$@"\n`;
  const path = write(folder, 'candidate', script, 0o755);
  chmodSync(path, 0o755);
  return path;
}

function decided(t, patch, {workload = 'fallback.mlp', gates = '[correctness, determinism, rollback]'} = {}) {
  const folder = temporaryFolder(t);
  write(
    folder,
    'gate.yaml',
    `format: 1
name: real
baseline: {label: as it is, python: ${python}}
candidate: {label: worse, python: ${candidate(folder, patch)}}
backends: [cpu]
classes: {research: {latency: 10 %}}
workloads:
  - name: case
    workload: ${workload}
    class: research
    phases: [training]
    gates: ${gates}
    frozen: {code: the library's, data: the seed's}
caveats: [size small]
`,
  );
  const done = run(['gate', 'run', '--accept-load', '--json'], {cwd: folder, timeout: 1_200_000});
  assert.ok(done.code === 0 || done.code === 1, done.err);
  return JSON.parse(done.out);
}
const failed = (report) => report.cells[0].gates.filter(({status}) => status !== 'PASS').map(({gate}) => gate);

test('the same PyTorch is adopted', (t) => {
  const report = decided(t, '');
  assert.equal(report.decision, 'adopt', JSON.stringify(report.rulings));
  assert.match(report.torch.baseline, /^2\./);
});

test('a kernel that is wrong in every precision fails correctness', (t) => {
  const report = decided(
    t,
    `import torch.nn.functional as F
gelu = F.gelu
F.gelu = lambda *args, **more: gelu(*args, **more) * 1.001
`,
  );
  assert.deepEqual(failed(report), ['correctness']);
  assert.match(report.cells[0].gates[0].reason, /computed in float64/);
});

for (const [name, patch, gates, options] of [
  [
    'a kernel that loses bits in float32 only',
    `import torch, torch.nn.functional as F
gelu = F.gelu
def rounded(x, *args, **more):
    out = gelu(x, *args, **more)
    return out if out.dtype == torch.float64 else out + (out * 1e-3).detach() * (torch.arange(out.numel()).reshape(out.shape) % 2)
F.gelu = rounded
`,
    ['correctness'],
  ],
  [
    'NaN',
    `import torch.nn.functional as F
gelu = F.gelu
F.gelu = lambda *args, **more: gelu(*args, **more) * float('nan')
`,
    ['correctness', 'determinism', 'rollback'],
  ],
  [
    'results that differ from run to run',
    `import random, torch.nn.functional as F
gelu = F.gelu
F.gelu = lambda *args, **more: gelu(*args, **more) * (1 + random.SystemRandom().random() * 1e-7)
`,
    ['determinism'],
  ],
  [
    'a graph break more, and an export that fails',
    `import torch, torch.nn.functional as F
gelu = F.gelu
def broken(x, *args, **more):
    torch._dynamo.graph_break()
    return gelu(x, *args, **more)
F.gelu = broken
`,
    ['compile_export'],
    {workload: 'compile.mlp', gates: '[compile_export, rollback]'},
  ],
]) {
  test(`${name}: found, not told`, {skip: !long && 'a minute of PyTorch: CROSSCHECK_LONG=1'}, (t) => {
    const found = failed(decided(t, patch, options));
    for (const gate of gates) assert.ok(found.includes(gate), `${gate} is not among ${found}`);
  });
}
