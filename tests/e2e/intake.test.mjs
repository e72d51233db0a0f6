// What the webhook answers to everything that upstream, or anybody else, may send.
import assert from 'node:assert/strict';
import {randomUUID} from 'node:crypto';
import {connect} from 'node:net';
import {test} from 'node:test';
import {
  dispatched,
  eventNames,
  eventually,
  ofRepository,
  payloads,
  pullRequest,
  recordingSettings,
  secret,
  send,
  serve,
  temporaryFolder,
  upstream,
} from './harness.mjs';

const EVENTS = ['pull_request', 'push', 'check_run', 'check_suite'];
const MEBIBYTE = 1024 * 1024;

const valid = (event) => JSON.stringify(ofRepository(payloads(event)[0], upstream));

// What is sent, and which answers are right.
const BAD = {
  unsigned: [(event) => ({body: valid(event)}), [400]],
  'wrongly signed': [(event) => ({body: valid(event), secret: 'another secret'}), [401]],
  'signed for another body': [
    async (event) => ({body: valid(event), signature: `sha256=${'0'.repeat(64)}`}),
    [401],
  ],
  'signed with an empty signature': [
    (event) => ({body: valid(event), signature: 'sha256='}),
    [401],
  ],
  truncated: [(event) => ({body: valid(event).slice(0, -20), secret}), [400]],
  empty: [() => ({body: '', secret}), [400]],
  'not UTF-8': [
    (event) => ({
      body: Buffer.concat([
        Buffer.from(valid(event).slice(0, -1)),
        Buffer.from([0x2c, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
      ]),
      secret,
    }),
    [400],
  ],
  'deeply nested': [() => ({body: '['.repeat(100_000) + ']'.repeat(100_000), secret}), [400]],
  'nested inside a valid event': [
    (event) => ({
      body: `${valid(event).slice(0, -1)},"deep":${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}}`,
      secret,
    }),
    [400],
  ],
  huge: [
    (event) => ({
      body: valid(event).slice(0, -1) + `,"pad":"${'x'.repeat(26 * MEBIBYTE)}"}`,
      secret,
    }),
    [413],
  ],
  'an array': [() => ({body: '[1, 2, 3]', secret}), [400]],
  'a number': [() => ({body: '42', secret}), [400]],
  'a text': [() => ({body: '"text"', secret}), [400]],
  null: [() => ({body: 'null', secret}), [400]],
};

test('the webhook', async (t) => {
  const folder = temporaryFolder(t);
  const server = await serve(t, {folder, settings: recordingSettings(folder)});

  for (const event of EVENTS) {
    for (const [what, [make, statuses]] of Object.entries(BAD)) {
      await t.test(`${event}, ${what}: refused with a reason`, async () => {
        const sent = await send(server.url, {event, ...(await make(event))});
        assert.ok(statuses.includes(sent.status), `answered ${sent.status}`);
        assert.match(sent.contentType, /^application\/json/);
        assert.ok(String(sent.answer.detail).length > 5, 'gives a reason');
      });
    }
  }

  await t.test('an event that is not supported is ignored, signed or not', async () => {
    for (const event of ['ping', 'issue_comment', 'Pull_Request', '']) {
      for (const extra of [{}, {secret}, {secret: 'another secret'}]) {
        const sent = await send(server.url, {event, body: {zen: 'x'}, ...extra});
        assert.equal(sent.status, 200, `${event}: ${sent.status}`);
        assert.equal(sent.answer.ignored, true);
      }
    }
  });

  await t.test('other methods and paths', async () => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const response = await fetch(new URL('/github/webhook', server.url), {method});
      assert.equal(response.status, 405, method);
    }
    const response = await fetch(new URL('/github/elsewhere', server.url), {method: 'POST'});
    assert.equal(response.status, 404);
  });

  await t.test('a body that ends before its length leaves the server well', async () => {
    const {hostname, port} = new URL(server.url);
    for (let round = 0; round < 10; round += 1) {
      const socket = connect(Number(port), hostname);
      await new Promise((done) => socket.once('connect', done));
      socket.end(
        'POST /github/webhook HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: push\r\nContent-Length: 5000\r\n\r\n{"a":',
      );
      await new Promise((done) => socket.once('close', done).resume());
    }
    assert.equal((await fetch(new URL('/healthz', server.url))).status, 200);
  });

  for (const event of eventNames) {
    await t.test(`every ${event} that GitHub sent once is answered, never with a 500`, async () => {
      for (const payload of payloads(event)) {
        const ours = payload.repository?.full_name && ofRepository(payload, upstream);
        for (const body of [payload, ...(ours ? [ours] : [])]) {
          const {status, answer} = await send(server.url, {event, body, secret});
          assert.ok(status >= 200 && status < 500, `${payload.action}: ${status}`);
          if (body === payload || !EVENTS.includes(event))
            assert.equal(answer.ignored, true, 'of another repository, or no event of ours');
        }
      }
    });
  }

  await t.test('one delivery is dispatched once, however often it comes', async () => {
    const delivery = randomUUID();
    const one = {body: pullRequest(), secret, delivery};
    const first = await Promise.all(Array.from({length: 20}, () => send(server.url, one)));
    const later = await send(server.url, one);
    for (const sent of [...first, later]) {
      assert.ok(sent.status >= 200 && sent.status < 300, `answered ${sent.status}`);
    }
    assert.equal(first.filter((sent) => sent.status === 202).length, 1, 'accepted once');
    const after = await send(server.url, {body: pullRequest({action: 'reopened'}), secret});
    await eventually('the delivery after it is dispatched', () =>
      dispatched(folder).includes(after.delivery),
    );
    assert.equal(dispatched(folder).filter((id) => id === delivery).length, 1);
  });

  await t.test('what was refused was not dispatched', async () => {
    const known = new Set(dispatched(folder));
    const refused = await send(server.url, {body: pullRequest(), secret: 'another secret'});
    const accepted = await send(server.url, {body: pullRequest(), secret});
    await eventually('dispatched', () => dispatched(folder).includes(accepted.delivery));
    assert.ok(!dispatched(folder).includes(refused.delivery));
    assert.ok(known.size > 0);
  });
});
