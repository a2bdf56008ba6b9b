import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Told {
  what: string;
  problem: { id: number; reason: string };
  verdicts: Record<string, string>;
}

/** What NOTIFY_URL may point to. */
export async function startReceiver(): Promise<{ url: string; told: Told[]; close(): void }> {
  const told: Told[] = [];
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    request.on('end', () => {
      told.push(JSON.parse(text));
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/hook`, told, close: () => void server.close() };
}
