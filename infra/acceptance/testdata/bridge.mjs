// An MCP client of an official TypeScript SDK, driven over standard input: the arguments
// are node_modules, the SDK (1 or 2), the era that SDK 2 asks for, and then an endpoint
// and a bearer token, or a command with its arguments. It prints what it agreed on, and
// then for each line {"tool","arguments"} the result of that tool on a line.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [modules, sdk, era, ...to] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`));
const [{ Client }, { StreamableHTTPClientTransport }, { StdioClientTransport }] = await Promise.all(sdk === '1'
  ? [load('sdk/dist/esm/client/index.js'), load('sdk/dist/esm/client/streamableHttp.js'), load('sdk/dist/esm/client/stdio.js')]
  : [load('client/dist/index.mjs'), load('client/dist/index.mjs'), load('client/dist/stdio.mjs')]);

const client = new Client({ name: 'bridge', version: '1.0.0' }, sdk === '2' ? { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : era } } : {});
const transport = /^https?:/.test(to[0])
  ? new StreamableHTTPClientTransport(new URL(to[0]), { requestInit: { headers: { authorization: `Bearer ${to[1]}` } } })
  : new StdioClientTransport({ command: to[0], args: to.slice(1), env: process.env, stderr: 'inherit' });
await client.connect(transport);
const say = (value) => process.stdout.write(JSON.stringify(value) + '\n');
const { tools } = await client.listTools();
say({ version: client.getNegotiatedProtocolVersion?.() ?? '', tools: tools.map((tool) => tool.name), instructions: client.getInstructions() ?? '' });
for await (const line of createInterface({ input: process.stdin })) {
  const { tool, arguments: given } = JSON.parse(line);
  say(await client.callTool({ name: tool, arguments: given }));
}
await client.close();
