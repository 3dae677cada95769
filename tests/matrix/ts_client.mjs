// The clients of the TypeScript SDK trying features of a server: prints what comes of each, as JSON by feature.
// Run as `node ts_client.mjs NODE_FOLDER PLAN`. PLAN is JSON: `client` (`v1` or `v2`), `mode` (of v2), `target` (a URL or a
// command line), `tool` and `resource` (what names begin with behind toolcrib), `features` (see features.py), `answers`.
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';

const [folder, plan] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { client: version, mode, target, tool, resource, features, answers } = JSON.parse(plan);
const WITHIN_MS = 5000;
const QUIET_MS = 500;
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const info = { name: 'mcp', version: '1' };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const handlers = {
    'elicitation/create': async ({ params }) => {
        if (params.mode === 'url') return { action: 'accept' };
        return { action: 'accept', content: params.requestedSchema.properties.size ? answers.form : { name: 'Ann' } };
    },
    'sampling/createMessage': async () => ({
        role: 'assistant', content: { type: 'text', text: answers.sampled }, model: 'm'
    }),
    'roots/list': async () => ({ roots: [answers.root] })
};

const plain = (data) => (typeof data === 'string' ? data : JSON.stringify(data));
const arrived = [];
const waiting = [];
const notified = (kind, what) => {
    arrived.push([kind, what]);
    waiting.splice(0).forEach((wake) => wake());
};
const notifications = {
    'notifications/resources/updated': ({ params }) => notified('updated', params.uri),
    'notifications/tools/list_changed': () => notified('tools', 'changed'),
    'notifications/prompts/list_changed': () => notified('prompts', 'changed'),
    'notifications/message': ({ params }) => notified('log', `${params.level}: ${plain(params.data)}`)
};

async function next(kind) {
    const end = Date.now() + WITHIN_MS;
    while (Date.now() < end) {
        while (arrived.length) {
            const [got, what] = arrived.shift();
            if (got === kind) return what;
        }
        await Promise.race([new Promise((resolve) => waiting.push(resolve)), pause(Math.max(0, end - Date.now()))]);
    }
    return 'nothing in time';
}

function connecting() {
    const url = typeof target === 'string' ? new URL(target) : undefined;
    const [command, ...args] = url ? [] : target;
    if (version === 'v1') {
        const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
        const types = load('@modelcontextprotocol/sdk/types.js');
        const client = new Client(info, { capabilities });
        client.setRequestHandler(types.ElicitRequestSchema, handlers['elicitation/create']);
        client.setRequestHandler(types.CreateMessageRequestSchema, handlers['sampling/createMessage']);
        client.setRequestHandler(types.ListRootsRequestSchema, handlers['roots/list']);
        for (const [name, schema] of [
            ['notifications/resources/updated', types.ResourceUpdatedNotificationSchema],
            ['notifications/tools/list_changed', types.ToolListChangedNotificationSchema],
            ['notifications/prompts/list_changed', types.PromptListChangedNotificationSchema],
            ['notifications/message', types.LoggingMessageNotificationSchema]
        ]) client.setNotificationHandler(schema, notifications[name]);
        const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
        const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const options = { command, args, stderr: 'ignore', env: { ...process.env } };
        return [client, url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(options)];
    }
    const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
    const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');
    const wanted = mode.startsWith('2') ? { pin: mode } : mode;
    const client = new Client(info, { capabilities, versionNegotiation: { mode: wanted } });
    for (const [method, handler] of Object.entries(handlers)) client.setRequestHandler(method, handler);
    for (const [method, handler] of Object.entries(notifications)) client.setNotificationHandler(method, handler);
    const options = { command, args, stderr: 'ignore', env: { ...process.env } };
    return [client, url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(options)];
}

const [client, transport] = connecting();
const isModern = () => version === 'v2' && client.getProtocolEra() === 'modern';

async function called(name, given, options) {
    const meta = isModern() ? { _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } } : {};
    const params = { name: tool + name, arguments: given, ...meta };
    const result = await (version === 'v1' ? client.callTool(params, undefined, options) : client.callTool(params, options));
    const texts = result.content.map((block) => (block.type === 'text' ? block.text : block.type));
    return (result.isError ? 'error: ' : '') + texts.join(' ');
}

async function listening(filter, subscribe, run) {
    if (isModern()) {
        const stream = await client.listen(filter);
        try {
            return await run();
        } finally {
            await stream.close();
        }
    }
    await subscribe();
    return run();
}

async function tried(feature) {
    if (feature.call) return called(...feature.call);
    if (feature.progress) {
        const steps = [];
        const onprogress = ({ progress, total }) => steps.push(`${progress}/${total ?? 0}`);
        const said = await called(...feature.progress, { onprogress });
        return `${(feature.any ? steps.slice(0, 1) : steps).join(', ')}; ${said}`;
    }
    if (feature.log) {
        if (!isModern()) await client.setLoggingLevel('debug');
        await called(...feature.log);
        const line = await next('log');
        return feature.any && line !== 'nothing in time' ? 'a line' : line;
    }
    if (feature.updated) {
        const uri = resource + feature.uri;
        return listening({ resourceSubscriptions: [uri] }, () => client.subscribeResource({ uri }), async () => {
            await called(...feature.updated);
            return next('updated');
        });
    }
    if (feature.changed) {
        // Where a list grows by use, the first call of a tool changes it too.
        await called(...feature.changed);
        await pause(QUIET_MS);
        return listening({ [`${feature.of}ListChanged`]: true }, async () => {}, async () => {
            arrived.length = 0;
            await called(...feature.changed);
            return next(feature.of);
        });
    }
    const giveUp = new AbortController();
    const works = new Promise((resolve) => {
        const options = { signal: giveUp.signal, onprogress: resolve };
        called(...feature.cancelled, options).catch(() => {});
    });
    await Promise.race([works, pause(WITHIN_MS)]);
    giveUp.abort();
    for (let round = 0; round < 20; round++) {
        const said = await called(...feature.then);
        if (said !== 'False') return said;
        await pause(100);
    }
    return 'goes on';
}

const found = {};
try {
    await client.connect(transport, { timeout: 30_000 });
    for (const [name, given] of Object.entries(features)) {
        const feature = JSON.parse(JSON.stringify(given).replaceAll('KEY', randomUUID()));
        try {
            const late = pause(3 * WITHIN_MS).then(() => 'nothing in time');
            found[name] = await Promise.race([tried(feature), late]);
        } catch (error) {
            found[name] = `error ${error.code}: ${error.message}`;
        }
    }
    await client.close();
} catch (error) {
    for (const name of Object.keys(features)) found[name] ??= `no connection: ${error.message}`;
}
process.stdout.write(JSON.stringify(found));
process.exit(0);
