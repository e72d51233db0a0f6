// Section 13 of the scenarios: what another HUD is sent, whatever it answers.
import assert from 'node:assert/strict';
import {once} from 'node:events';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {test} from 'node:test';
import {eventually, run} from '../e2e/harness.mjs';
import {callback, report} from './issuer.mjs';
import {LEVELS, relay} from './relay.mjs';

const [ONE, TWO] = LEVELS.L2;
const KEY = 'the key of a bot';

// A HUD that answers as told: a status, 'close' or 'hang'.
class Hud {
  answers = []; // the next ones; afterwards 200
  received = []; // {path, key, body}
  async start() {
    this.server = createServer(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += chunk;
      const answer = this.answers.shift() ?? 200;
      if (answer === 'close') return request.socket.destroy();
      if (answer === 'hang') return undefined;
      this.received.push({
        path: request.url,
        key: request.headers['x-hud-internal-bot'],
        body: JSON.parse(text),
        answer,
      });
      return response.writeHead(answer, {'content-type': 'application/json'}).end('{"ok":true}');
    });
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    this.url = `http://127.0.0.1:${this.server.address().port}/api`;
    return this;
  }
  async stop() {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
  taken() {
    return this.received.filter(({answer}) => answer === 200).map(({body}) => body);
  }
}

async function setUp(t) {
  const hud = await new Hud().start();
  t.after(() => hud.stop());
  const parts = await relay(t, {env: {HUD_API_URL: `${hud.url}/`, HUD_BOT_KEY: KEY}});
  const delivery = await parts.dispatched([ONE, TWO, LEVELS.L4[0]]);
  const call = async (repository, workflow, more = {}) => {
    const sent = {...report(delivery, workflow), ...more};
    const {status, answer} = await callback(parts.server.url, parts.issuer.token(repository), sent);
    assert.equal(status, 200, JSON.stringify(answer));
    return sent;
  };
  return {...parts, hud, call, delivery};
}

test('each change of a job reaches it, in the envelope of PyTorch’s relay', async (t) => {
  const {hud, call, server} = await setUp(t);
  const pad = {pull_request: {number: 2, body: 'é'.repeat(30_000)}};
  const started = await call(ONE, {status: 'in_progress'}, {payload: pad, more: [1.5, null]});
  await call(ONE, {status: 'in_progress'}); // again: nothing new
  const ended = await call(ONE, {status: 'completed', conclusion: 'failure'});
  const l4 = await call(LEVELS.L4[0], {status: 'completed', job_name: 'first'});
  await eventually('it has them', () => hud.taken().length >= 3);
  const of = (repository) =>
    hud.taken().filter(({trusted}) => trusted.verified_repo === repository);
  const [first, second, ...rest] = of(ONE);
  assert.deepEqual(rest, []);
  assert.deepEqual(first.untrusted, {callback_payload: started}, 'as it came');
  assert.deepEqual(second.untrusted, {callback_payload: ended});
  assert.equal(first.trusted.downstream_repo_level, 'L2');
  assert.equal(typeof first.trusted.ci_metrics.queue_time, 'number');
  assert.equal(first.trusted.ci_metrics.execution_time, null);
  assert.equal(second.trusted.ci_metrics.queue_time, null);
  assert.equal(typeof second.trusted.ci_metrics.execution_time, 'number');
  assert.deepEqual(of(LEVELS.L4[0])[0].untrusted, {callback_payload: l4});
  assert.deepEqual(of(LEVELS.L4[0])[0].trusted, {
    ci_metrics: {queue_time: null, execution_time: null},
    verified_repo: LEVELS.L4[0],
    downstream_repo_level: 'L4',
  });
  for (const {path, key} of hud.received)
    assert.deepEqual([path, key], ['/api/crcr/results', KEY]);
  assert.ok(!server.log.includes(KEY), 'the key is in no log');
});

test('a HUD in trouble is not the caller’s trouble, and loses nothing', async (t) => {
  const {hud, call} = await setUp(t);
  hud.answers = [500, 'close', 503];
  await call(ONE, {status: 'in_progress'});
  await call(ONE, {status: 'completed'});
  await eventually('both arrive, in order', () => hud.taken().length >= 2);
  assert.deepEqual(
    hud.taken().map(({untrusted}) => untrusted.callback_payload.workflow.status),
    ['in_progress', 'completed'],
  );
  // What it refuses for good stays for people to see; what comes after is sent.
  hud.answers = [400];
  await call(TWO, {status: 'in_progress'});
  await call(TWO, {status: 'completed'});
  await eventually('the next one arrives', () =>
    hud.taken().some(({trusted}) => trusted.verified_repo === TWO),
  );
  assert.equal(hud.received.filter(({answer}) => answer === 400).length, 1, 'not repeated');
});

test('what it refuses for good is on /ops and in the metrics, and replayed from there', async (t) => {
  const {hud, call, server, folder} = await setUp(t);
  hud.answers = [400];
  const refused = await call(TWO, {status: 'completed', job_name: 'refused'});
  const ops = await eventually('it is dead', async () => {
    const found = await server.json('/ops.json');
    return found.forwards.dead.count === 1 && found;
  });
  const [letter] = ops.dead_letters;
  assert.equal(letter.says, 'refused');
  assert.equal(letter.repo, TWO);
  assert.match(letter.reason, /HUD answered 400/);
  const metrics = async () => (await fetch(new URL('/metrics', server.url))).text();
  assert.match(await metrics(), /^crosscheck_forwards\{state="dead"\} 1$/m);
  assert.match(
    await (await fetch(new URL('/ops', server.url))).text(),
    new RegExp(`<button name="report" value="${letter.report}"`),
  );

  const cli = (...args) => run([...args, '--db', join(folder, 'crosscheck.db')]);
  const token = cli('token', 'create', '--role', 'operator', '--name', 'alice').out.trim();
  const replay = async (form) => {
    const response = await fetch(new URL('/ops/replay', server.url), {
      method: 'POST',
      headers: {authorization: `Bearer ${token}`},
      body: new URLSearchParams(form),
    });
    return [response.status, await response.json()];
  };
  assert.equal((await replay({report: '999'}))[0], 404);
  assert.deepEqual(await replay({report: letter.report}), [200, {ok: true, armed: 1, left: 0}]);
  await eventually('it arrives', () => hud.taken().length === 1);
  assert.deepEqual(hud.taken()[0].untrusted, {callback_payload: refused});
  await eventually('none is dead', async () => /^crosscheck_forwards\{state="dead"\} 0$/m.test(await metrics()));
  const again = cli('relay', 'replay', '--report', String(letter.report));
  assert.equal(again.code, 3);
  assert.match(again.err, /report \d+ of .* is sent/);
});

test('what is on its way survives a restart', async (t) => {
  const {hud, call, server, restart} = await setUp(t);
  hud.answers = Array.from({length: 50}, () => 'close');
  await call(ONE, {status: 'in_progress'});
  await server.kill();
  hud.answers = [];
  await restart();
  await eventually('it arrives', () => hud.taken().length === 1);
});
