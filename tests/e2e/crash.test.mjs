// kill -9 at any instant, then a restart: every accepted event is dispatched at least once.
import assert from 'node:assert/strict';
import {existsSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {
  dispatched,
  eventually,
  long,
  pullRequest,
  recordingSettings,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const ROUNDS = long ? 50 : 5;

test('killed between accept and dispatch: dispatched after the restart', async (t) => {
  const folder = temporaryFolder(t);
  const gate = join(folder, 'gate');
  // The backend's command waits for the gate, so that nothing is dispatched to its end before the kill.
  const settings = recordingSettings(folder, {gate, concurrency: 1});
  const first = await serve(t, {folder, settings});
  const sent = [];
  for (let n = 0; n < 4; n += 1) sent.push(await send(first.url, {body: pullRequest(), secret}));
  for (const {status} of sent) assert.equal(status, 202);
  await first.kill();
  assert.deepEqual(dispatched(folder), []);
  assert.ok(!existsSync(gate));
  writeFileSync(gate, '');
  await serve(t, {folder, settings});
  await eventually('every accepted delivery is dispatched', () =>
    sent.every(({delivery}) => dispatched(folder).includes(delivery)),
  );
});

test(`killed at ${ROUNDS} arbitrary instants under load`, {timeout: 900_000}, async (t) => {
  const folder = temporaryFolder(t);
  const settings = recordingSettings(folder);
  const accepted = [];
  let refused = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const server = await serve(t, {folder, settings});
    let alive = true;
    const sender = async () => {
      while (alive) {
        try {
          const {status, delivery} = await send(server.url, {body: pullRequest(), secret});
          if (status === 202) accepted.push(delivery);
          else refused += 1;
        } catch {
          return; // the connection died with the server: nothing was promised
        }
      }
    };
    const senders = [sender(), sender(), sender(), sender()];
    const before = accepted.length;
    // Not before it has accepted something, then at once or a little later.
    await eventually('it accepts', () => accepted.length > before);
    await new Promise((wake) => setTimeout(wake, (round * 37) % 150));
    await server.kill();
    alive = false;
    await Promise.all(senders);
  }
  assert.equal(refused, 0);
  assert.ok(accepted.length >= ROUNDS);
  const server = await serve(t, {folder, settings});
  await eventually(
    `all ${accepted.length} accepted deliveries are dispatched`,
    () => {
      const done = new Set(dispatched(folder));
      return accepted.every((delivery) => done.has(delivery));
    },
    long ? 600 : 180,
  );
  assert.deepEqual(await server.stop(), {code: 0, signal: null});
});
