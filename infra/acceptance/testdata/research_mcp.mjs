// An MCP server of the official TypeScript SDK, whose directory is the first argument.
// It listens on a port of this machine that it prints, and ends with its input.
//
// /mcp answers as a stream, /json in one piece, both with sessions; /stateless has none.
// With a second argument it takes requests with that bearer token alone.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [directory, token] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${directory}/dist/esm/${path}`));
const { Server } = await load('server/index.js');
const { StreamableHTTPServerTransport } = await load('server/streamableHttp.js');
const { CallToolRequestSchema, ErrorCode, ListToolsRequestSchema, McpError } = await load('types.js');

const sessions = new Map();
const log = [];

// serve makes a server with the tools.
function serve() {
  const server = new Server({ name: 'research', version: '1.0.0' }, { capabilities: { tools: {}, logging: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: ['search', 'fail', 'refuse', 'forget', 'slow'].map((name) => ({ name, inputSchema: { type: 'object' } })) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const { name, arguments: given } = params;
    log.push(name);
    switch (name) {
      case 'search':
        // What a server says beside its answer, before it.
        await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data: 'searching' } });
        return { content: [{ type: 'text', text: `3 papers on ${given.query}` }], structuredContent: { papers: [1, 2, 3], query: given.query } };
      case 'fail':
        return { content: [{ type: 'text', text: 's3cret: the index is down' }], isError: true };
      case 'refuse':
        throw new McpError(ErrorCode.InvalidParams, 's3cret');
      case 'slow':
        await new Promise((done) => setTimeout(done, 30000));
        return { content: [] };
    }
    throw new McpError(ErrorCode.MethodNotFound, 's3cret');
  });
  return server;
}

createServer(async (request, response) => {
  if (request.url === '/log') {
    response.end(JSON.stringify({ sessions: sessions.size, called: log }));
    return;
  }
  if (request.url === '/forget') { // as after a restart
    sessions.clear();
    response.end('{}');
    return;
  }
  if (token && request.headers.authorization !== `Bearer ${token}`) {
    response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    return;
  }
  const id = request.headers['mcp-session-id'];
  let transport = sessions.get(id);
  if (id && !transport) {
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null }));
    return;
  }
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: request.url === '/stateless' ? undefined : () => randomUUID(),
      enableJsonResponse: request.url === '/json',
      onsessioninitialized: (made) => { sessions.set(made, transport); },
    });
    await serve().connect(transport);
  }
  await transport.handleRequest(request, response);
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });

process.stdin.on('end', () => process.exit(0)).resume();
