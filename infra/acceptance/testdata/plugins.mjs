// An ordinary MCP client of what plugins can do: that of the official TypeScript SDK, whose
// directory is the first argument. The second is the endpoint, the third and fourth are as
// whom it connects (connect.mjs), the fifth a manifest.
//
// It lists the tools, calls the one that tidies, twice under one key and once wrongly,
// judges the manifest, and prints what it saw as JSON.
import { pathToFileURL } from 'node:url';
import { connect } from './connect.mjs';

const [directory, endpoint, who, code, manifest] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${directory}/dist/esm/${path}`));
const { Client } = await load('client/index.js');
const seen = {};
const c = await connect({ load, url: new URL(endpoint), who, code, client: () => new Client({ name: 'acceptance', version: '1.0.0' }), seen });
seen.tools = (await c.listTools()).tools;
const name = seen.tools.find((tool) => tool._meta?.['px/capabilityId'] === 'notes.tidy').name;
const call = async (tool, given, meta) => {
  const { isError, structuredContent, content } = await c.callTool({ name: tool, arguments: given, _meta: meta });
  if (content[0].text !== JSON.stringify(structuredContent)) throw new Error(`${tool}: its text is another answer`);
  return { isError, ...structuredContent };
};
seen.first = await call(name, { query: 'girder' }, { 'px/idempotencyKey': 'turn-1' });
seen.again = await call(name, { query: 'girder' }, { 'px/idempotencyKey': 'turn-1' });
seen.wrong = await call(name, { query: 7 });
seen.read = await call('execution_get', { executionId: seen.first.data.executionId });
seen.good = await call('validate', { package: { files: { 'manifest.json': manifest } } });
seen.bad = await call('validate', { package: { files: { 'manifest.json': manifest.replace('"pluginKey"', '"pluginkey"') } } });
await c.close();
console.log(JSON.stringify(seen));
