// Debian's Chromium for tests, and axe in it.
import axe from 'axe-core';
import assert from 'node:assert/strict';
import {existsSync} from 'node:fs';
import {chromium} from 'playwright-core';

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  assert.ok(existsSync(executablePath), `${executablePath} does not exist: scripts/setup test`);
  return chromium.launch({
    executablePath,
    args: [
      ...(process.getuid() === 0 ? ['--no-sandbox'] : []),
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

// What axe objects to on an open page. Its context must have `bypassCSP`: axe is put into the page, which the pages'
// own policy forbids to scripts.
export async function objections(page) {
  await page.evaluate(axe.source);
  const {violations} = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html)}`);
}
