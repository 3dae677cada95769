// A real authorization server for tests: npm's oidc-provider, with registration, rotation, resource indicators,
// revocation and introspection. Started by tests/oauth/rig.py; by hand:
//
//   node tests/oauth/provider.mjs FOLDER PORT '{"resources": ["http://127.0.0.1:9000/mcp"]}'
//
// FOLDER holds node_modules. Prints one line when it listens; ends with its stdin. Options: `resources` (URLs that tokens may be for),
// `lasts` (seconds of an access token), `client` ({id, secret} of who may introspect).
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const [folder, port, json] = process.argv.slice(2);
const options = { lasts: 600, resources: [], client: { id: 'resource', secret: 'resource' }, ...JSON.parse(json ?? '{}') };
const library = pathToFileURL(join(folder, 'node_modules', 'oidc-provider', 'lib', 'index.js'));
const { default: Provider, errors } = await import(library.href);
const issuer = `http://127.0.0.1:${port}`;

// Whoever started this may be killed without a chance to end it.
process.stdin.resume();
process.stdin.on('end', () => process.exit());

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: options.client.id,
      client_secret: options.client.secret,
      redirect_uris: [],
      response_types: [],
      grant_types: ['client_credentials'],
    },
  ],
  scopes: ['openid', 'offline_access', 'email', 'notes:read', 'notes:write'],
  claims: { email: ['email'], openid: ['sub'] },
  async findAccount(_context, id) {
    return { accountId: id, claims: async () => ({ sub: id, email: `${id}@example.com` }) };
  },
  conformIdTokenClaims: false,
  cookies: { keys: ['of-this-test'] },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_context, client) => client.grantTypeAllowed('refresh_token'),
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  ttl: { AccessToken: options.lasts, ClientCredentials: options.lasts, RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600, IdToken: 600 },
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true, allowedPolicy: async (_context, client) => client.clientId === options.client.id },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: async () => true,
      async getResourceServerInfo(_context, indicator) {
        if (!options.resources.includes(indicator)) throw new errors.InvalidTarget();
        return { scope: 'notes:read notes:write', audience: indicator, accessTokenTTL: options.lasts, accessTokenFormat: 'opaque' };
      },
    },
  },
});

// Ends one access token, as time does: to revoke it ends what renews it too.
provider.use(async (context, next) => {
  if (context.path !== '/test/end') return next();
  await (await provider.AccessToken.find(context.query.token))?.destroy();
  context.status = 204;
});

// What happened is told on stdout, one line each, so that a test can count grants.
provider.on('grant.success', (context) => console.log(`grant ${context.oidc.params.grant_type}`));
provider.on('grant.error', (context, error) => console.log(`refused ${context.oidc.params?.grant_type} ${error.error}`));
provider.on('grant.revoked', () => console.log('revoked'));
provider.on('registration_create.success', () => console.log('registered'));
provider.on('server_error', (_context, error) => console.log(`error ${error.message}`));
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
