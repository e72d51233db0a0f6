// What newer actions add to a report, on its page in a browser: shown as the downstream's word, and nothing that axe finds
// fault with in either theme.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {launch, objections} from '../e2e/browser.mjs';
import {callback, report} from './issuer.mjs';
import {LEVELS, relay} from './relay.mjs';

const COMMIT = 'deadbeef00000000000000000000000000000003';
const VERDICT = {
  schema_version: 1,
  category: 'upstream',
  confidence: 'high',
  summary: 'aten::foo lost its out= overload <script>alert(1)</script>',
  suspected_upstream: {pr: 194610, commit: '0e797b5a6acf', reason: 'a changed signature'},
  evidence: [
    {job: 'build', log_url: 'https://ci.test/job/1#L5', excerpt: 'error: no matching function'},
    {test: 'test_foo', log_url: 'https://user@evil.test/'},
  ],
};

test('a verdict and failed tests on the page of a job', async (t) => {
  const {server, github, issuer} = await relay(t);
  github.commits.add(COMMIT);
  const tests = Array.from({length: 30}, (_, i) => ({
    name: `test_${i}`,
    classname: 'TestFoo',
    message: 'AssertionError: 1 != 2',
    stacktrace: 'Traceback\n  frame',
  }));
  const {status} = await callback(server.url, issuer.token(LEVELS.L2[0]), {
    ...report(COMMIT, {
      status: 'completed',
      conclusion: 'failure',
      triage_verdict: VERDICT,
      failed_tests_detail: tests,
    }),
    event_type: 'nightly',
  });
  assert.equal(status, 200);
  const text = JSON.stringify(await server.json(`/commit/${COMMIT}.json`));
  const [path] = text.match(/\/job\/\d+/);
  const twin = await server.json(`${path}.json`);
  assert.equal(twin.word_failed_tests.length, 30);
  assert.equal(twin.word_triage_verdict.evidence[1].log_url, null);

  const browser = await launch();
  t.after(() => browser.close());
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({baseURL: server.url, colorScheme});
    const page = await context.newPage();
    const complaints = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(path, {waitUntil: 'load'});
    const word = page.locator('section[aria-labelledby="said-by"]');
    const shown = await word.innerText();
    for (const part of ['upstream', 'confidence: high', '<script>alert(1)</script>', '#194610'])
      assert.ok(shown.includes(part), `${part} in ${shown}`);
    const links = await word
      .locator('a')
      .evaluateAll((all) => all.map((link) => link.getAttribute('href')));
    assert.ok(links.includes('https://ci.test/job/1#L5'));
    assert.ok(links.includes('https://github.com/pytorch/pytorch/pull/194610'));
    assert.ok(!links.some((href) => href.includes('evil')));
    assert.deepEqual(await objections(page), []);
    assert.deepEqual(complaints, []);
    await context.close();
  }
});
