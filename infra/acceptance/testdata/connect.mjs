// Connects the client of the official TypeScript SDK: who is a bearer token, or the name of
// a sample principal as whom it signs in first. It registers itself, finds who gives
// tokens, and chooses on the page as a person would, with the code that px local printed.
export async function connect({ load, url, who, code, client, fetch: counted = fetch, seen = {} }) {
  const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
  const { UnauthorizedError } = await load('client/auth.js');

  // Person is a sign-in of the SDK; what a browser would do is done by it.
  class Person {
    redirectUrl = 'http://127.0.0.1:9/back';
    clientMetadata = { client_name: 'Acceptance', redirect_uris: [this.redirectUrl], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none' };
    clientInformation() { return this.registered; }
    saveClientInformation(registered) { this.registered = registered; }
    tokens() { return this.saved; }
    saveTokens(saved) { this.saved = saved; }
    saveCodeVerifier(verifier) { this.verifier = verifier; }
    codeVerifier() { return this.verifier; }
    async redirectToAuthorization(to) {
      seen.scope = to.searchParams.get('scope');
      seen.resource = to.searchParams.get('resource');
      const page = await (await fetch(to)).text();
      const ticket = /name="ticket" value="([^"]+)"/.exec(page)?.[1];
      if (!ticket) throw new Error(`a page without a choice: ${page}`);
      const chosen = await fetch(to.origin + '/oauth/authorize', {
        method: 'POST', redirect: 'manual', headers: { origin: to.origin, 'content-type': 'application/x-www-form-urlencoded' }, body: new URLSearchParams({ ticket, as: who, code }),
      });
      this.code = new URL(chosen.headers.get('location')).searchParams.get('code');
    }
  }

  let c = client();
  if (who.split('.').length === 3) {
    await c.connect(new StreamableHTTPClientTransport(url, { fetch: counted, requestInit: { headers: { authorization: `Bearer ${who}` } } }));
    return c;
  }
  const person = new Person();
  const first = new StreamableHTTPClientTransport(url, { fetch: counted, authProvider: person });
  try {
    await c.connect(first);
    throw new Error('connected without a token');
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  await first.finishAuth(person.code);
  c = client();
  await c.connect(new StreamableHTTPClientTransport(url, { fetch: counted, authProvider: person }));
  return c;
}
