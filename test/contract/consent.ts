import { request as send } from 'node:http';

export interface ConsentOutcome {
  status: number;
  /** Where the browser would go. */
  location: URL;
}

/** What a person's browser does: opens the page, presses a button on it, and is sent somewhere. */
export async function consent(
  authUrl: string,
  query: Record<string, string>,
  answer: 'allow' | 'deny' = 'allow',
): Promise<ConsentOutcome> {
  const page = await fetch(`${authUrl}/oauth/authorize?${new URLSearchParams(query)}`, {
    redirect: 'manual',
  });
  const html = await page.text();
  const location = page.headers.get('location');
  if (location !== null) return { status: page.status, location: new URL(location) };
  if (page.status !== 200) throw new Error(`no consent form (${page.status}): ${html}`);
  return await press(page.url, new URLSearchParams({ answer }));
}

/** Not by fetch, which does not send an Origin of our choosing. */
function press(address: string, form: URLSearchParams): Promise<ConsentOutcome> {
  const headers = { origin: new URL(address).origin, 'content-type': 'application/x-www-form-urlencoded' };
  return new Promise((resolve, reject) => {
    const outgoing = send(address, { method: 'POST', headers }, (incoming) => {
      incoming.resume();
      const { statusCode = 0, headers: answered } = incoming;
      if (answered.location === undefined) reject(new Error(`no redirect: ${statusCode}`));
      else resolve({ status: statusCode, location: new URL(answered.location) });
    });
    outgoing.on('error', reject);
    outgoing.end(form.toString());
  });
}
