// A JUnit reporter for node:test: a test case a leaf, also on Node 18, which brings none.
const escape = (text) =>
  String(text)
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD]/g, '\uFFFD')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;');

function describe(error) {
  const cause = error?.cause ?? error;
  if (cause instanceof Error || cause?.stack) return cause.stack;
  return String(cause ?? 'failed');
}

export default async function* junit(source) {
  const open = []; // what encloses the test that runs: {name, children}
  yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites>\n<testsuite name="node">\n';
  for await (const {type, data} of source) {
    if (type === 'test:start') {
      open.splice(data.nesting);
      if (data.nesting > 0 && open[data.nesting - 1]) open[data.nesting - 1].children = true;
      open[data.nesting] = {name: data.name, children: false};
    } else if (type === 'test:pass' || type === 'test:fail') {
      const hadChildren = open[data.nesting]?.children && open[data.nesting]?.name === data.name;
      // A parent stands for its children, unless it failed by itself.
      const own = data.details?.error?.failureType !== 'subtestsFailed';
      if (hadChildren && (type === 'test:pass' || !own)) continue;
      const path = open.slice(0, data.nesting).map((test) => test.name);
      const seconds = (data.details?.duration_ms ?? 0) / 1000;
      yield `<testcase classname="${escape(path.join('::'))}" name="${escape(data.name)}" time="${seconds}">`;
      if (data.skip !== undefined && data.skip !== false) {
        yield `<skipped message="${escape(data.skip)}"/>`;
      } else if (type === 'test:fail') {
        yield `<failure>${escape(describe(data.details?.error))}</failure>`;
      }
      yield '</testcase>\n';
    }
  }
  yield '</testsuite>\n</testsuites>\n';
}
