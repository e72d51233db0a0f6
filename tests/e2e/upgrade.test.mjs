// What an upgrade gate decided, from its launches to the pages: published, shown with its twins, and read by axe in both
// themes; so is the report's page, which stands alone.
import assert from 'node:assert/strict';
import {chmodSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {launch, objections} from './browser.mjs';
import {recordingSettings, root, run, serve, temporaryFolder, write} from './harness.mjs';

const HOSTILE = '<script>alert(1)</script> & "quotes"';

const cleanUp = [];
let browser, folder, server, db, page;

const gate = (...args) => run(['gate', ...args], {cwd: folder});

before(async () => {
  const context = {after: (action) => cleanUp.unshift(action)};
  folder = temporaryFolder(context);
  for (const [side, behaviour] of Object.entries({baseline: {}, candidate: {timing: {peak_memory_bytes: 150_000_000}}})) {
    mkdirSync(join(folder, side));
    const script = '#!/usr/bin/env -S python3 -I -S\n' + readFileSync(join(root, 'tests/e2e/gate_interpreter.py'), 'utf8');
    chmodSync(write(join(folder, side), 'python', script, 0o755), 0o755);
    write(join(folder, side), 'behaviour.json', JSON.stringify(behaviour));
  }
  write(
    folder,
    'gate.yaml',
    `format: 1
name: upgrade
baseline: {label: current, python: ./baseline/python}
candidate: {label: '${HOSTILE}', python: ./candidate/python}
backends: [cpu]
fleet: [cpu]
classes:
  nightly: {latency: 5 %, latency_p95: 5 %, throughput: 5 %, peak_memory: 10 %}
workloads:
  - name: mlp
    workload: fallback.mlp
    class: nightly
    gates: [correctness, latency, throughput, peak_memory, determinism, compile_export, rollback]
    frozen: {code: abc, data: def}
claims: [{id: faster, source: 'https://example.com/notes', workload: mlp, gate: latency, gain: 10 %, cost: two days}]
caveats: ['${HOSTILE}']
waivers:
  - {cell: mlp/cpu/inference/peak_memory, owner: the memory team, reason: known, expires: 2020-01-01}
  - {cell: mlp/cpu/inference/latency, owner: the speed team, reason: asked for, expires: 2999-01-01}
`,
  );
  const measured = gate('run');
  assert.equal(measured.code, 1, measured.err);
  const settings = recordingSettings(folder);
  server = await serve(context, {folder, settings});
  db = join(folder, 'crosscheck.db');
  assert.equal((await server.json('/upgrade.json')).upgrades.length, 0);
  const published = gate('publish', '--db', db, '--json');
  assert.equal(published.code, 0, published.err);
  ({page} = JSON.parse(published.out));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  for (const action of cleanUp) await action();
});

test('the pages say what the report says, with waivers as they are now', async () => {
  const report = JSON.parse(gate('report', '--json').out);
  const twin = await server.json(`${page}.json`);
  assert.equal(twin.report.decision, 'defer');
  assert.deepEqual(twin.report.rulings, report.rulings);
  assert.deepEqual(twin.report.cells, report.cells);
  assert.deepEqual(twin.waivers.map(({owner, expired}) => [owner, expired]), [
    ['the memory team', true],
    ['the speed team', false],
  ]);
  const {upgrades} = await server.json('/upgrade.json');
  assert.equal(upgrades.length, 1);
  assert.equal(upgrades[0].page, page);
  const [{decision, gates}] = upgrades[0].rulings;
  assert.equal(decision, 'defer');
  assert.equal(gates.find(({gate}) => gate === 'peak_memory').status, 'FAIL');
});

test('a bundle is published once, and only if it is whole', async () => {
  assert.equal(gate('bundle', 'upgrade.tar').code, 0);
  const first = gate('publish', 'upgrade.tar', '--db', db, '--json');
  assert.equal(first.code, 0, first.err);
  assert.equal(JSON.parse(first.out).page, page, 'a matrix keeps its page');
  const {bundle} = await server.json(`${page}.json`);
  assert.deepEqual(JSON.parse(gate('publish', 'upgrade.tar', '--db', db, '--json').out).changed, false);
  assert.equal((await server.json(`${page}.json`)).bundle, bundle);
  const bytes = readFileSync(join(folder, 'upgrade.tar'));
  bytes[700] ^= 1;
  writeFileSync(join(folder, 'bent.tar'), bytes);
  assert.equal(gate('publish', 'bent.tar', '--db', db).code, 3);
  assert.equal((await server.json('/upgrade.json')).upgrades.length, 1);
});

test('an unknown upgrade is told from a wrong address', async () => {
  for (const [path, status] of [
    ['/upgrade/999999', 404],
    ['/upgrade/x', 404],
    ['/upgrade?page=0', 400],
    ['/upgrade?page=2', 200],
  ]) {
    assert.equal((await fetch(server.url + path)).status, status, path);
  }
  const known = await fetch(server.url + page);
  const again = await fetch(`${server.url}${page}.json`);
  const etag = again.headers.get('etag');
  assert.equal((await fetch(`${server.url}${page}.json`, {headers: {'if-none-match': etag}})).status, 304);
  assert.doesNotMatch(await known.text(), /<script>alert/);
});

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing to object to, ${colorScheme}`, async () => {
    const standing = write(folder, 'upgrade.html', gate('report', '--format', 'html').out);
    const found = [];
    for (const url of [`${server.url}/upgrade`, server.url + page, pathToFileURL(standing).href]) {
      for (const width of [390, 1280]) {
        const context = await browser.newContext({colorScheme, bypassCSP: true, viewport: {width, height: 844}});
        const tab = await context.newPage();
        tab.on('console', (message) => found.push(`${url}: ${message.text()}`));
        tab.on('dialog', (dialog) => found.push(`${url}: ${dialog.message()}`));
        await tab.goto(url, {waitUntil: 'load'});
        if (await tab.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)) {
          found.push(`${url}: scrolls sideways at ${width}`);
        }
        await tab.evaluate(() => document.querySelectorAll('details').forEach((details) => (details.open = true)));
        if (width > 390) found.push(...(await objections(tab)).map((objection) => `${url}: ${objection}`));
        await context.close();
      }
    }
    assert.deepEqual(found, []);
  });
}
