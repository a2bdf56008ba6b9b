import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * An API that lists as many vendors as its first argument says, each answer after so many milliseconds as the second says, and nothing else:
 * a process of its own, so that its work is not measured.
 */
const total = Number(process.argv[2]);
const latencyMs = Number(process.argv[3] ?? 0);

const server = createServer((request, response) => {
  const url = new URL(request.url ?? '/', 'http://api');
  const page = Number(url.searchParams.get('page') ?? 1);
  const perPage = Number(url.searchParams.get('perPage') ?? 100);
  const held = url.pathname.endsWith('/vendors') ? total : 0;
  const from = (page - 1) * perPage;
  const data = Array.from({ length: Math.max(0, Math.min(perPage, held - from)) }, (_, at) => ({
    id: `ven_${from + at}`,
    name: `Vendor ${from + at}`,
    status: 'active',
    tier: 'high',
    owner: { name: 'Procurement', email: 'procurement@example.com' },
  }));
  response.setHeader('content-type', 'application/json');
  const body = JSON.stringify({ data, meta: { page, perPage, total: held } });
  if (latencyMs === 0) response.end(body);
  else setTimeout(() => response.end(body), latencyMs);
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`Vendors: http://127.0.0.1:${(server.address() as AddressInfo).port}/v1\n`);
});
process.once('SIGTERM', () => process.exit());
