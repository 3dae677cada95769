// The server of python_server.py by the TypeScript SDK, as its documentation writes one for both eras.
// Run as `node ts_server.mjs NODE_FOLDER [PORT]`: on its pipes, or over streamable HTTP on loopback, where clients of
// 2025-11-25 have sessions.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const [folder, port] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { McpServer, createMcpHandler, inputRequired, isLegacyRequest } = load('@modelcontextprotocol/server');
const { serveStdio } = load('@modelcontextprotocol/server/stdio');
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = load('@modelcontextprotocol/node');
const { z } = load('zod');

const WATCHED = 'note://watched';
const cancelled = new Set();
const added = { tools: [], prompts: [] };
let handler;

const text = (said) => ({ content: [{ type: 'text', text: said }] });
const saying = () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'Something' } }] });
const sizes = { type: 'object', properties: { size: { type: 'string' } }, required: ['size'] };
const slogan = { messages: [{ role: 'user', content: { type: 'text', text: 'A slogan?' } }], maxTokens: 20 };
const questions = {
    form: () => inputRequired.elicit({ message: 'Which size?', requestedSchema: sizes }),
    url: () => inputRequired.elicitUrl({ message: 'Pay here', url: 'https://example.com/pay' }),
    sampling: () => inputRequired.createMessage(slogan),
    roots: () => inputRequired.listRoots()
};

function offer({ era }) {
    const capabilities = { logging: {}, tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true } };
    const server = new McpServer({ name: 'everyday', version: '1.0.0' }, { capabilities });
    const tool = (name, inputSchema, run) => server.registerTool(name, { description: `Does ${name}.`, inputSchema }, run);
    const none = z.object({});
    const keyed = z.object({ key: z.string() });

    tool('plain', z.object({ text: z.string() }), async ({ text: said }) => text(`You said: ${said}`));
    for (const [name, question] of Object.entries(questions)) {
        tool(name, none, async (_given, context) => {
            const answer = context.mcpReq.inputResponses?.question;
            return answer ? text(JSON.stringify(answer)) : inputRequired({ inputRequests: { question: question() } });
        });
    }
    tool('pushed', none, async (_given, context) => {
        const answer = await context.mcpReq.elicitInput({ message: 'Which size?', requestedSchema: sizes });
        return text(`${answer.action}: ${answer.content?.size ?? 'nothing'}`);
    });
    tool('log', none, async (_given, context) => {
        await context.mcpReq.log('info', 'Something happened');
        return text('logged');
    });
    const report = async (context, step) => {
        const progressToken = context.mcpReq._meta?.progressToken;
        if (progressToken !== undefined) {
            const params = { progressToken, progress: step, total: 2, message: `Step ${step}` };
            await context.mcpReq.notify({ method: 'notifications/progress', params });
            // Some clients drop what they read together with the answer.
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
    };
    tool('progress', none, async (_given, context) => {
        await report(context, 1);
        await report(context, 2);
        return text('done');
    });
    server.registerResource('watched', WATCHED, {}, async () => ({ contents: [{ uri: WATCHED, text: 'A note' }] }));
    tool('update', none, async () => {
        handler?.notify.resourceUpdated(WATCHED);
        if (era === 'legacy' || !handler) await server.server.sendResourceUpdated({ uri: WATCHED });
        return text('changed');
    });
    // Over HTTP each request of 2026-07-28 has a server of its own, and each of them what was added before.
    const add = {
        tools: (name) => tool(name, none, async () => text('added')),
        prompts: (name) => server.registerPrompt(name, {}, saying)
    };
    added.tools.forEach(add.tools);
    ['said', ...added.prompts].forEach(add.prompts);
    tool('grow', z.object({ kind: z.string() }), async ({ kind }) => {
        added[kind].push(`added_${added[kind].length}`);
        add[kind](added[kind].at(-1));
        if (kind === 'tools') handler?.notify.toolsChanged();
        else handler?.notify.promptsChanged();
        return text('grown');
    });
    tool('wait', keyed, async ({ key }, context) => {
        const { signal } = context.mcpReq;
        const end = new Promise((resolve) => signal.addEventListener('abort', resolve));
        await report(context, 1);
        await Promise.race([end, new Promise((resolve) => setTimeout(resolve, 60_000).unref())]);
        if (signal.aborted) cancelled.add(key);
        return text('waited');
    });
    tool('cancelled', keyed, async ({ key }) => text(cancelled.has(key) ? 'True' : 'False'));
    if (era === 'legacy') {
        for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
            server.server.setRequestHandler(method, async () => ({}));
        }
    }
    return server;
}

if (port === undefined) {
    serveStdio(offer);
} else {
    const sessions = new Map();
    handler = createMcpHandler(offer, { legacy: 'reject' });
    const modern = toNodeHandler(handler);
    createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
        if (request.method === 'POST' && !(await isLegacyRequest(await toWebRequest(request, body), body))) {
            return modern(request, response, body);
        }
        const known = sessions.get(request.headers['mcp-session-id']);
        if (known) return known.handleRequest(request, response, body);
        const transport = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (id) => sessions.set(id, transport)
        });
        await offer({ era: 'legacy' }).connect(transport);
        return transport.handleRequest(request, response, body);
    }).listen(Number(port), '127.0.0.1');
}
