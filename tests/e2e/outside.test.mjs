// What the outside may do to a running server: peers that never finish a request, an issuer that is away or changes keys.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {connect} from 'node:net';
import {test} from 'node:test';
import {GitHubDouble} from '../contract/github.mjs';
import {Issuer, callback, report} from '../contract/issuer.mjs';
import {
  eventually,
  githubSettings,
  pullRequest,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const ONE = 'org-a/backend';
const HALF_OPEN = 2000;

async function setUp(t) {
  const github = await new GitHubDouble({repositories: [ONE]}).start();
  t.after(() => github.stop());
  const issuer = await new Issuer().start();
  t.after(() => issuer.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {
    github,
    repositories: [ONE],
    more: issuer.settings,
  });
  const server = await serve(t, {folder, settings, env, local: false});
  const event = async () => {
    const sent = await send(server.url, {body: pullRequest(), secret});
    assert.equal(sent.status, 202, JSON.stringify(sent.answer));
    await eventually('it is dispatched', () =>
      github.accepted(ONE).some((d) => d.client_payload.delivery_id === sent.delivery),
    );
    return sent.delivery;
  };
  return {github, issuer, server, event};
}

test(`${HALF_OPEN} connections that send half a request hold up nobody`, async (t) => {
  const {issuer, server, event} = await setUp(t);
  const {hostname, port} = new URL(server.url);
  const halves = [
    '',
    'POST /github/webhook HTTP/1.1\r\nHost: x\r\nX-Git',
    'POST /github/webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 24000\r\n\r\n{"half": ',
    'POST /github/callback HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5',
  ];
  const sockets = [];
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  for (let begin = 0; begin < HALF_OPEN; begin += 100) {
    await Promise.all(
      Array.from({length: 100}, async (_, i) => {
        const socket = connect(Number(port), hostname);
        socket.on('error', () => {}); // cut off by the server, as it should after a while
        sockets.push(socket);
        await new Promise((done) => socket.once('connect', done).once('close', done));
        socket.write(halves[i % halves.length]);
      }),
    );
  }
  // Honest ones are served meanwhile, from the event to the page.
  const delivery = await event();
  const {status} = await callback(server.url, issuer.token(ONE), report(delivery));
  assert.equal(status, 200);
  assert.ok(JSON.stringify(await server.json('/pr/2.json')).includes(delivery));
  assert.ok(
    sockets.filter((socket) => !socket.destroyed).length > HALF_OPEN / 2,
    'while they were still there',
  );
  assert.deepEqual(await server.stop(), {code: 0, signal: null});
});

test('an issuer that is away, comes back, and changes its keys', async (t) => {
  const {issuer, server, event} = await setUp(t);
  const delivery = await event();
  let run = 0;
  const call = (signing) => {
    run += 1;
    const token = issuer.token(ONE, {run_id: String(run)}, signing);
    return callback(server.url, token, report(delivery, {run_id: run}));
  };

  issuer.mode = 'fail';
  const away = await call();
  assert.equal(away.status, 503, 'not the caller\'s fault, who may try again');
  assert.doesNotMatch(JSON.stringify(away.answer), /ey[A-Za-z0-9_-]{20}/);

  issuer.mode = 'serve';
  await eventually('its keys are asked for again', async () => (await call()).status === 200);

  const old = issuer.signing;
  issuer.rotate({keep: true});
  await eventually('the new key is found', async () => (await call()).status === 200);
  assert.equal((await call(old)).status, 200, 'the old one is served still');

  const asked = issuer.asked;
  const unknown = new Issuer().signing;
  for (let n = 0; n < 50; n += 1) assert.equal((await call(unknown)).status, 401);
  assert.ok(issuer.asked - asked <= 2, `unknown keys made it ask ${issuer.asked - asked} times`);

  for (const mode of ['fail', 'close', 'hang']) {
    issuer.mode = mode;
    assert.equal((await call()).status, 200, `the last good keys serve on: ${mode}`);
  }
});

test("strangers' reports take no more memory than they have bytes", async (t) => {
  const {server} = await setUp(t);
  const limit = 4 << 20;
  const body = `[${'1,'.repeat(limit / 2 - 2)}1]`;
  const answers = await Promise.all(
    Array.from({length: 32}, () => callback(server.url, undefined, body)),
  );
  for (const {status} of answers) assert.equal(status, 401);
  const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
  const most = Number(status.match(/^VmHWM:\s+(\d+) kB$/m)[1]) * 1024;
  assert.ok(most < 32 * limit * 3, `${most} bytes`);
});
