// The allowlist read from GitHub: taken over when it changes, and the last good one kept through whatever GitHub answers.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {
  eventually,
  githubSettings,
  pullRequest,
  secret,
  send,
  serve,
  temporaryFolder,
  write,
} from '../e2e/harness.mjs';
import {GitHubDouble} from './github.mjs';

const FILE = 'pytorch/pytorch/.github/allowlist.yml';
const ONE = 'org-a/backend';
const TWO = 'org-b/backend';

async function setUp(t, {upstream = true} = {}) {
  const github = await new GitHubDouble({
    repositories: [ONE, TWO, ...(upstream ? ['pytorch/pytorch'] : [])],
  }).start();
  t.after(() => github.stop());
  const list = (...repositories) =>
    github.files.set(FILE, {text: `L2:\n${repositories.map((r) => `  - ${r}\n`).join('')}`});
  list(ONE);
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {github, repositories: []});
  const start = (url = 'https://github.com/pytorch/pytorch/blob/main/.github/allowlist.yml') =>
    serve(t, {
      folder,
      settings: settings.replace(/^allowlist: .*$/m, 'allowlist_ttl_seconds: 1'),
      env: {...env, ALLOWLIST_URL: url},
      local: false,
    });
  const reads = () => github.requests.filter(({path}) => path.includes('/contents/'));
  return {github, folder, list, start, reads};
}

async function dispatched(server, github, repository) {
  const {status, delivery} = await send(server.url, {body: pullRequest(), secret});
  assert.equal(status, 202);
  await eventually(`it is dispatched to ${repository}`, () =>
    github.accepted(repository).some((d) => d.client_payload.delivery_id === delivery),
  );
}

const ask = (server, path, options) => fetch(new URL(path, server.url), options);

const metric = async (server, name) =>
  Number((await (await fetch(new URL('/metrics', server.url))).text()).match(
    new RegExp(`^${name} (.*)$`, 'm'),
  )[1]);

test('as the App: read once, then only asked whether it changed', async (t) => {
  const {github, list, start, reads} = await setUp(t);
  const server = await start();
  await dispatched(server, github, ONE);
  await eventually('it is asked for again', () => reads().length >= 3);
  assert.deepEqual([...new Set(reads().slice(1).map(({status}) => status))], [304]);
  list(ONE, TWO);
  await eventually('the new version is in force', async () =>
    (await server.json('/allowlist.json')).backends.length === 2,
  );
  await dispatched(server, github, TWO);
  const {versions} = await server.json('/allowlist.json');
  assert.deepEqual(versions[0].added, [`- ${TWO}`]);
  assert.equal(await metric(server, 'crosscheck_allowlist_backends'), 2);
  assert.deepEqual(github.violations, []);
});

test('without the App on that repository: read as anybody may', async (t) => {
  const {github, start} = await setUp(t, {upstream: false});
  const server = await start(`${github.url}/repos/pytorch/pytorch/contents/.github/allowlist.yml?ref=main`);
  await dispatched(server, github, ONE);
  assert.deepEqual(github.violations, []);
});

for (const [what, spoil] of [
  ['500', ({github}) => github.contentsScript.push(...Array(50).fill({status: 500}))],
  ['a used up rate limit', ({github}) =>
    github.contentsScript.push(
      ...Array(50).fill({status: 403, headers: {'x-ratelimit-remaining': '0'}}),
    )],
  ['404', ({github}) => github.files.delete(FILE)],
  ['a list that is broken', ({github}) => github.files.set(FILE, {text: 'L2:\n  - org-a\n'})],
]) {
  test(`${what}: the last good version is kept, through a restart too, and everybody sees why`, async (t) => {
    const context = await setUp(t);
    const {github, list, start} = context;
    const first = await start();
    spoil(context);
    const sees = async (server) => {
      const {errors} = await eventually('the page says why', async () => {
        const page = await server.json('/allowlist.json');
        return page.errors.length > 0 && page;
      });
      assert.match(errors[0].error, /allowlist\.yml/);
      // The page has it from the store, and perhaps from the run before; the metric from this one.
      await eventually('it is counted', async () =>
        (await metric(server, 'crosscheck_allowlist_refused')) === 1,
      );
      await dispatched(server, github, ONE);
    };
    await sees(first);
    await first.kill();
    const second = await start();
    await sees(second);
    github.contentsScript.length = 0;
    list(ONE, TWO);
    await eventually('the repair is taken over', async () =>
      (await metric(second, 'crosscheck_allowlist_refused')) === 0 &&
      (await second.json('/allowlist.json')).backends.length === 2,
    );
    await dispatched(second, github, TWO);
    assert.deepEqual(github.violations, []);
  });
}

test('a GitHub that does not answer holds up no start: the last good version serves at once', async (t) => {
  const {github, start} = await setUp(t);
  await (await start()).kill();
  github.contentsScript.push(...Array(50).fill('hang'));
  const server = await start();
  await eventually('the list is asked for', () => github.hanging.size > 0);
  await dispatched(server, github, ONE);
  assert.equal((await ask(server, '/readyz')).status, 200);
  assert.deepEqual(github.violations, []);
});

test('a first start while GitHub is away: nothing is lost, and /readyz says what is missing', async (t) => {
  const {github, start} = await setUp(t);
  github.contentsScript.push(...Array(500).fill({status: 500}));
  const server = await start();
  const ready = await ask(server, '/readyz');
  assert.equal(ready.status, 503);
  assert.ok((await ready.json()).reasons.includes('allowlist: not loaded'));
  assert.equal((await ask(server, '/healthz')).status, 200);
  const early = await send(server.url, {body: pullRequest(), secret});
  assert.equal(early.status, 503);
  for (const [path, method] of [
    ['/github/callback', 'POST'],
    [`/api/v1/results/${'0'.repeat(64)}`, 'PUT'],
  ]) {
    const response = await ask(server, path, {method, body: '{}'});
    assert.equal(response.status, 503, path);
    assert.equal(response.headers.get('retry-after'), '5');
  }
  github.contentsScript.length = 0;
  await eventually('it is ready', async () => (await ask(server, '/readyz')).status === 200);
  await dispatched(server, github, ONE);
  assert.deepEqual(github.violations, []);
});

test('a file and an address at once: neither is passed over in silence', async (t) => {
  const github = await new GitHubDouble({repositories: [ONE]}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {github, repositories: [ONE]});
  const map = write(folder, 'providers.yaml', 'providers: {}\n');
  const url = 'https://github.com/pytorch/pytorch/blob/main/file.yml';
  for (const [variables, more, says] of [
    [{ALLOWLIST_URL: url}, '', /ended \(3\)[^]*allowlist_url: the file .*allowlist\.yaml is named/],
    [
      {CI_PROVIDERS_URL: url},
      `ci_providers: ${map}\n`,
      /ended \(3\)[^]*ci_providers_url: the file .*providers\.yaml is named/,
    ],
  ])
    await assert.rejects(
      serve(t, {folder, settings: settings + more, env: {...env, ...variables}, local: false}),
      says,
    );
});

test('an address that is none, or nothing at it, stops the program and is named', async (t) => {
  const {start} = await setUp(t);
  for (const [url, says] of [
    ['https://example.com/o/r/blob/main/x.yml', /ended \(3\)[^]*allowlist_url: .*not on github\.com/],
    ['https://github.com/pytorch/pytorch/blob/main/no.yml', /ended \(3\)[^]*no\.yml.*404/],
    ['not an address', /ended \(3\)[^]*\$ALLOWLIST_URL: allowlist_url/],
  ]) {
    await assert.rejects(start(url), says);
  }
});
