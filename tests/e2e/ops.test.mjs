// What those who run the relay do: tokens, the audit log, dead letters seen on /ops and sent again.
import assert from 'node:assert/strict';
import {existsSync, readFileSync, readdirSync, statSync} from 'node:fs';
import {request} from 'node:http';
import {join} from 'node:path';
import {test} from 'node:test';
import {GitHubDouble} from '../contract/github.mjs';
import {launch, objections} from './browser.mjs';
import {
  eventually,
  githubSettings,
  postgres,
  pullRequest,
  recordingSettings,
  root,
  run,
  secret,
  send,
  serve,
  temporaryFolder,
  write,
} from './harness.mjs';

const REACHED = 'org-a/backend';
const MISSED = 'org-b/backend';

// A relay that could not dispatch one event to one of two repositories: the App is not installed there.
async function withDeadLetter(t, {db} = {}) {
  const github = await new GitHubDouble({repositories: [REACHED]}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const url = db ?? join(folder, 'crosscheck.db');
  const {settings, env} = githubSettings(folder, {github, repositories: [REACHED, MISSED]});
  const server = await serve(t, {folder, settings, env, db: url, local: false});
  const {delivery, status} = await send(server.url, {body: pullRequest(), secret});
  assert.equal(status, 202);
  const ops = await eventually('the dispatch is given up', async () => {
    const found = await server.json('/ops.json');
    return found.dead_letters.length === 1 && found;
  });
  const cli = (...args) => run([...args, '--db', url]);
  const token = (role, name = role) => {
    const made = cli('token', 'create', '--role', role, '--name', name);
    assert.equal(made.code, 0, made.err);
    return made.out.trim();
  };
  // From now on the App is installed there.
  const install = () => github.repositories.set(MISSED, {id: 200, script: [], accepted: []});
  const arrived = () =>
    github.accepted(MISSED).filter((d) => d.client_payload.delivery_id === delivery).length;
  return {github, folder, url, server, delivery, letter: ops.dead_letters[0], cli, token, install, arrived};
}

// With the headers as given: fetch would add its own.
function post(server, {path = '/ops/replay', form = {}, headers = {}}) {
  return new Promise((resolve, reject) => {
    const call = request(
      new URL(path, server.url),
      {
        method: 'POST',
        headers: {'content-type': 'application/x-www-form-urlencoded', ...headers},
      },
      async (response) => {
        let text = '';
        for await (const chunk of response) text += chunk;
        resolve({
          status: response.statusCode,
          location: response.headers.location,
          answer: text === '' ? undefined : JSON.parse(text),
        });
      },
    );
    call.on('error', reject);
    call.end(new URLSearchParams(form).toString());
  });
}

const bearer = (token) => ({authorization: `Bearer ${token}`});

for (const engine of ['sqlite', 'postgresql']) {
  test(`${engine}: a dead letter is shown with its reason, and replayed by who has a token`, async (t) => {
    const db = engine === 'sqlite' ? undefined : await postgres(t);
    const {server, letter, token, install, arrived, delivery} = await withDeadLetter(t, {db});
    assert.equal(letter.repo, MISSED);
    assert.equal(letter.delivery_id, delivery);
    assert.equal(letter.replayable, true);
    assert.match(letter.reason, /404.*not installed/);
    install();

    const form = {dispatch: letter.dispatch};
    const refused = await post(server, {form, headers: bearer('cct_00')});
    assert.equal(refused.status, 401);
    assert.equal(refused.answer.error, 'unauthorized');
    assert.equal(arrived(), 0);

    const done = await post(server, {form, headers: bearer(token('operator', 'alice'))});
    assert.equal(done.status, 200, JSON.stringify(done.answer));
    assert.deepEqual(done.answer, {ok: true, armed: 1, left: 0});
    await eventually('it has arrived', () => arrived() === 1);
    const ops = await eventually('no dead letter is left', async () => {
      const found = await server.json('/ops.json');
      return found.dead_letters.length === 0 && found.outbox.sent.count === 2 && found;
    });
    const [entry] = ops.audit;
    assert.equal(entry.actor, 'token:alice');
    assert.equal(entry.origin, undefined);
    assert.equal(entry.action, 'replay');
    assert.equal(entry.subject, `dispatch ${letter.dispatch}`);
    assert.equal(entry.outcome, '1 armed again');
    // The refused attempt is in the counters, not in the log of what was done.
    assert.equal(ops.audit.filter(({action}) => action === 'replay').length, 1);
    const refusal = ops.process.refusals.find(({kind}) => kind === 'admin');
    assert.equal(refusal.reason, 'unauthorized');
    const {audit} = await server.json('/ops.json', {headers: bearer(token('admin'))});
    assert.equal(audit.find(({action}) => action === 'replay').origin, '127.0.0.1');

    const again = await post(server, {form, headers: bearer(token('operator', 'bob'))});
    assert.equal(again.status, 409);
    assert.match(again.answer.detail, /is sent/);
  });
}

test('crosscheck relay replay: by dispatch, by delivery, all; what is not there is said', async (t) => {
  const {letter, cli, delivery, github, server, token, install, arrived} = await withDeadLetter(t);
  const dead = () =>
    eventually('it is dead again', async () => {
      const {dead_letters: letters} = await server.json('/ops.json');
      return letters.length === 1;
    });
  for (const which of [
    ['--dispatch', String(letter.dispatch)],
    ['--delivery', delivery],
    ['--all-dead'],
  ]) {
    const asked = github.count('GET', /org-b\/backend\/installation$/);
    const done = cli('relay', 'replay', '--json', ...which);
    assert.equal(done.code, 0, done.err);
    assert.deepEqual(JSON.parse(done.out), {armed: 1, left: 0});
    await eventually('it was tried again', () =>
      github.count('GET', /org-b\/backend\/installation$/) > asked);
    await dead();
  }
  install();
  assert.equal(cli('relay', 'replay', '--all-dead').code, 0);
  await eventually('it has arrived', () => arrived() === 1);

  for (const [which, why] of [
    [['--dispatch', '999'], /no dispatch 999/],
    [['--delivery', 'no-such'], /no delivery no-such/],
  ]) {
    const {code, err} = cli('relay', 'replay', ...which);
    assert.equal(code, 3);
    assert.match(err, why);
  }
  assert.equal(cli('relay', 'replay').code, 2);
  assert.equal(cli('relay', 'replay', '--all-dead', '--dispatch', '1').code, 2);
  const {audit} = await server.json('/ops.json');
  assert.equal(audit.filter(({action}) => action === 'replay').length, 4);
  // From where is for administrators, on the page as in its JSON.
  for (const [role, sees] of [['operator', false], ['admin', true], [undefined, false]]) {
    const headers = role === undefined ? {authorization: 'Basic eDp5'} : bearer(token(role, role));
    const shown = await server.json('/ops.json', {headers});
    assert.equal(shown.audit.some(({origin}) => origin !== undefined), sees, role);
    const page = await (await fetch(new URL('/ops', server.url), {headers})).text();
    assert.equal(page.includes('(command line)'), sees, role);
  }
  assert.match(audit[0].actor, /^user:/);
});

test('what a newer commit superseded stays dead', async (t) => {
  const {server, cli, letter} = await withDeadLetter(t);
  await send(server.url, {body: pullRequest({action: 'synchronize'}), secret});
  const find = async () =>
    (await server.json('/ops.json')).dead_letters.find((l) => l.dispatch === letter.dispatch);
  await eventually('it is shown', async () => (await find()).not_replayable === 'superseded');
  const {code, err} = cli('relay', 'replay', '--dispatch', String(letter.dispatch));
  assert.equal(code, 3);
  assert.match(err, /superseded/);
});

test('tokens: shown once, stored hashed, listed, expired, revoked', async (t) => {
  const {server, cli, token, letter, url} = await withDeadLetter(t);
  const text = token('operator', 'carol');
  assert.match(text, /^cct_[0-9a-f]{64}$/);
  assert.ok(!readFileSync(url).includes(text), 'the store holds the token itself');
  assert.ok(!existsSync(`${url}-wal`) || !readFileSync(`${url}-wal`).includes(text));
  assert.equal(cli('token', 'create', '--role', 'operator', '--name', 'carol').code, 3);
  assert.equal(cli('token', 'create', '--role', 'king', '--name', 'dave').code, 2);
  assert.equal(cli('token', 'create', '--role', 'admin', '--name', 'a b').code, 3);
  assert.equal(
    cli('token', 'create', '--role', 'admin', '--name', 'x', '--expires', 'soon').code,
    2,
  );
  const made = cli('token', 'create', '--json', '--role', 'admin', '--name', 'erin', '--expires', '12h');
  const {expires_at: expires} = JSON.parse(made.out);
  assert.ok(Math.abs(Date.parse(expires) - Date.now() - 12 * 3600e3) < 600e3, expires);

  const list = JSON.parse(cli('token', 'list', '--json').out);
  assert.deepEqual(
    list.map(({name, role, state}) => [name, role, state]),
    [
      ['erin', 'admin', 'live'],
      ['carol', 'operator', 'live'],
    ],
  );
  assert.ok(!cli('token', 'list').out.includes(text));
  assert.equal(cli('token', 'revoke', 'carol').code, 0);
  assert.equal(cli('token', 'revoke', 'carol').code, 3);
  const refused = await post(server, {form: {dispatch: letter.dispatch}, headers: bearer(text)});
  assert.equal(refused.status, 401);
  assert.match(refused.answer.detail, /revoked/);
  const {audit} = await server.json('/ops.json');
  assert.deepEqual(
    audit.map(({action, subject}) => [action, subject]),
    [
      ['token.revoke', 'carol'],
      ['token.create', 'erin'],
      ['token.create', 'carol'],
    ],
  );
  assert.ok(!JSON.stringify(audit).includes(text));
});

test('a token is made in a store that is there, of the settings that are named', async (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'relay/store.db');
  const env = {CROSSCHECK_SETTINGS: write(folder, 'settings.yaml', `db: ${db}\n`)};
  const create = ['token', 'create', '--role', 'operator', '--name', 'alice'];
  for (const options of [{env}, {}]) {
    const {code, err} = run(create, {cwd: folder, ...options});
    assert.equal(code, 3, err);
    assert.match(err, /--settings/);
  }
  assert.deepEqual(readdirSync(folder), ['settings.yaml']);
  assert.equal(run(['db', 'migrate'], {cwd: folder, env}).code, 0);
  assert.equal(run(create, {cwd: folder, env}).code, 0);
  const {code, err} = run(['relay', 'replay', '--dispatch', 'abc'], {cwd: folder, env});
  assert.equal(code, 2);
  assert.match(err, /abc not in range 1 to \d+$/m);
});

test('a form of another site changes nothing', async (t) => {
  const {server, token, letter} = await withDeadLetter(t);
  const form = {token: token('operator'), dispatch: letter.dispatch};
  const host = new URL(server.url).host;
  for (const headers of [
    {origin: 'https://evil.example'},
    {origin: 'null'},
    {origin: `http://${host}`, 'sec-fetch-site': 'cross-site'},
    {origin: `http://${host}.evil.example`},
    {'sec-fetch-site': 'same-site'},
    {},
  ]) {
    const {status, answer} = await post(server, {form, headers});
    assert.equal(status, 403, JSON.stringify(headers));
    assert.equal(answer.error, 'forbidden');
  }
  assert.equal((await server.json('/ops.json')).outbox.dead.count, 1);
  const done = await post(server, {form, headers: {origin: `http://${host}`, 'sec-fetch-site': 'same-origin'}});
  assert.equal(done.status, 303);
  assert.equal(done.location, '/ops?armed=1&left=0');
});

test('what is not understood is said, and reading is for everybody', async (t) => {
  const {server, token} = await withDeadLetter(t);
  const headers = bearer(token('operator'));
  for (const form of [{}, {dispatch: '0'}, {dispatch: 'x'}, {dispatch: '1', all_dead: '1'}, {all_dead: 'yes'}]) {
    const {status, answer} = await post(server, {form, headers});
    assert.equal(status, 400, JSON.stringify(form));
    assert.match(answer.detail, /field/);
  }
  const json = await post(server, {headers: {...headers, 'content-type': 'application/json'}});
  assert.equal(json.status, 400);
  const read = await fetch(new URL('/ops/replay', server.url));
  assert.equal(read.status, 405);
  assert.equal((await fetch(new URL('/ops', server.url))).status, 200);
});

test('the API budget that GitHub tells is shown', async (t) => {
  const github = await new GitHubDouble({repositories: [REACHED]}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {github, repositories: [REACHED]});
  const server = await serve(t, {folder, settings, env, local: false});
  const resets = Math.floor(Date.now() / 1000) + 1800;
  github.script(REACHED, [
    {
      status: 403,
      headers: {
        'retry-after': '1',
        'x-ratelimit-limit': '5000',
        'x-ratelimit-remaining': '42',
        'x-ratelimit-reset': String(resets),
        'x-ratelimit-resource': 'core',
      },
    },
  ]);
  await send(server.url, {body: pullRequest(), secret});
  const [budget] = await eventually('it is shown', async () => {
    const {process: found} = await server.json('/ops.json');
    return found.github_api_budget.length > 0 && found.github_api_budget;
  });
  assert.deepEqual(budget, {
    account: 'org-a',
    resource: 'core',
    limit: 5000,
    remaining: 42,
    resets_at: new Date(resets * 1000).toISOString().replace('.000', ''),
  });
  const metrics = await (await fetch(new URL('/metrics', server.url))).text();
  for (const [name, value] of [['limit', 5000], ['remaining', 42], ['reset_time_seconds', resets]])
    assert.ok(
      metrics.includes(`crosscheck_github_api_${name}{account="org-a",resource="core"} ${value}\n`),
      name,
    );
});

test('a local server makes an admin token in its state folder, for its owner alone', async (t) => {
  const folder = temporaryFolder(t);
  const server = await serve(t, {folder, settings: recordingSettings(folder)});
  const file = join(folder, 'state', 'admin-token');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const token = readFileSync(file, 'utf8').trim();
  assert.ok(server.log.includes(file));
  assert.ok(!server.log.includes(token));
  const {status, answer} = await post(server, {form: {all_dead: '1'}, headers: bearer(token)});
  assert.equal(status, 200);
  assert.deepEqual(answer, {ok: true, armed: 0, left: 0});
});

test('/ops in a browser: the button replays, axe finds nothing in either theme', async (t) => {
  const {server, token, install, arrived, letter} = await withDeadLetter(t);
  const browser = await launch();
  t.after(() => browser.close());
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({colorScheme, bypassCSP: true});
    const page = await context.newPage();
    await page.goto(new URL('/ops', server.url).href);
    assert.deepEqual(await objections(page), [], colorScheme);
    await context.close();
  }
  install();
  for (const javaScriptEnabled of [true, false]) {
    const context = await browser.newContext({javaScriptEnabled});
    const page = await context.newPage();
    await page.goto(new URL('/ops', server.url).href);
    assert.equal(await page.locator('#outbox-dead').getAttribute('data-count'), javaScriptEnabled ? '1' : '0');
    if (javaScriptEnabled) {
      await page.getByLabel('Token of an operator').fill('wrong');
      await page.getByRole('button', {name: `Replay dispatch ${letter.dispatch}`}).click();
      assert.match(await page.getByRole('alert').innerText(), /unknown/);
      await page.getByLabel('Token of an operator').fill(token('operator'));
      await page.getByRole('button', {name: `Replay dispatch ${letter.dispatch}`}).click();
      assert.match(await page.locator('p.notice').innerText(), /1 dispatch put back/);
      await eventually('it has arrived', () => arrived() === 1);
      await eventually('it is sent', async () => {
        const {outbox} = await server.json('/ops.json');
        return outbox.dead.count === 0 && outbox.sent.count === 2;
      });
    }
    await context.close();
  }
});

test('docs/metrics.md has every metric, with its type, and no other', async (t) => {
  const {server} = await withDeadLetter(t);
  const text = await (await fetch(new URL('/metrics', server.url))).text();
  const told = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, ...pair]) => pair.join(' '));
  const page = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
  const written = [...page.matchAll(/^\| `(\w+)(?:\{[\w,]*\})?` \| (\w+) \|/gm)].map(([, ...pair]) =>
    pair.join(' '),
  );
  assert.deepEqual(told.sort(), written.sort());
  assert.match(text, /^crosscheck_dispatches\{state="dead"\} 1$/m);
});

test('the log follows a delivery from the webhook through refusals to its dispatch', async (t) => {
  const {server, delivery} = await withDeadLetter(t);
  const refused = await send(server.url, {body: pullRequest(), secret: 'wrong', delivery: 'wrong-1'});
  assert.equal(refused.status, 401);
  const callback = await fetch(new URL('/github/callback', server.url), {
    method: 'POST',
    headers: {authorization: 'Bearer nonsense'},
    body: JSON.stringify({delivery_id: delivery, workflow: {}}),
  });
  assert.equal(callback.status, 401);
  for (const line of [
    new RegExp(` webhook delivery=${delivery} `),
    new RegExp(` dispatch.*delivery=${delivery} .*state=dead`),
    / refused kind=webhook delivery=wrong-1 .*status=401/,
    new RegExp(` refused kind=callback delivery=${delivery} .*status=401`),
  ])
    await eventually(`${line} is in the log`, () => line.test(server.log));
});
