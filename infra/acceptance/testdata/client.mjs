// An ordinary MCP client: that of the official TypeScript SDK, whose directory is the
// first argument. The second is the endpoint, the third and fourth are as whom it
// connects (connect.mjs).
//
// It finds the sample Flow, changes its label by plan and apply, runs it at 60 ft, and
// prints what it saw as JSON.
import { pathToFileURL } from 'node:url';
import { connect } from './connect.mjs';

const [directory, endpoint, who, code] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${directory}/dist/esm/${path}`));
const { Client } = await load('client/index.js');

const url = new URL(endpoint);
const seen = { requests: [] };
const client = () => new Client({ name: 'acceptance', version: '1.0.0' });
// What the SDK sends, by method and path.
const counted = async (to, init) => {
  const answer = await fetch(to, init);
  seen.requests.push(`${init?.method ?? 'GET'} ${new URL(to).pathname} ${answer.status}`);
  return answer;
};

const c = await connect({ load, url, who, code, client, fetch: counted, seen });

seen.server = c.getServerVersion();
seen.instructions = c.getInstructions();
seen.tools = (await c.listTools()).tools.map((tool) => tool.name);
await c.ping();

// call calls a tool; the SDK holds the answer to the tool's outputSchema.
const call = async (name, given) => {
  const answer = await c.callTool({ name, arguments: given });
  const text = answer.content.map((part) => part.text).join('');
  if (JSON.stringify(JSON.parse(text)) !== JSON.stringify(answer.structuredContent)) throw new Error(`${name}: its text is another answer`);
  if (answer.isError || !answer.structuredContent.ok) throw new Error(`${name}: ${text}`);
  return answer.structuredContent.data;
};
const scope = { kind: 'project', workspaceKey: 'structural_team', projectKey: 'bridge_package' };
const { items } = await call('pxflow_search', { scope, query: 'girder check' });
const found = items.find((item) => item.target.flowKey === 'girder_check');
const plan = await call('pxflow_plan_change', { target: found.target, expectedGeneration: found.generation, commands: [{ kind: 'SetFlowLabel', label: { en: `Girder check by ${who.length}` } }] });
const applied = await call('pxflow_apply_change', { target: found.target, expectedGeneration: found.generation, planRef: plan.planRef, planDigest: plan.planDigest, commandId: 'sdk-label' });
const q = (value, unit) => ({ value, unit });
const run = await call('pxflow_run', {
  kind: 'RunFlow', target: applied.changed[0].target, commandId: 'sdk-run',
  inputs: { span: q(60, 'ft'), dead_load: q(1.2, 'kip/ft'), impact: q(0.3, '1'), section_modulus: q(1500, 'in^3'), yield_stress: q(50, 'ksi') },
});
for (let state = ''; state !== 'Succeeded';) {
  state = (await call('run_get', { runRef: run.runRef })).state;
  if (['Failed', 'Cancelled', 'Interrupted'].includes(state)) throw new Error(state);
}
seen.moment = (await call('result_read', { runRef: run.runRef, resultKey: 'live_moment' })).value;
// What a tool refuses is an error of the tool, with its diagnostics.
const refused = await c.callTool({ name: 'pxflow_describe', arguments: { target: { scope } } });
seen.refused = { isError: refused.isError, code: refused.structuredContent.diagnostics[0].code };
await c.close();
console.log(JSON.stringify(seen));
