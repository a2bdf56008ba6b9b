import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Budget } from '../../src/compliance/budget.ts';
import { createBudget } from '../../src/compliance/budget.ts';
import type { Credentials } from '../../src/compliance/client.ts';
import { type ComplianceClient, createClient, type ObservedRequest } from '../../src/compliance/client.ts';
import { apiKeyCredentials } from '../../src/compliance/credentials.ts';
import type { ComplianceSettings } from '../../src/platform/config.ts';
import { HeldClock } from './held-clock.ts';

interface Received {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

export type Handler = (response: ServerResponse, request: Received, count: number) => void;

export interface Upstream {
  client: ComplianceClient;
  budget: Budget;
  clock: HeldClock;
  settings: ComplianceSettings;
  /** Every request that reached the service, in order. */
  received: Received[];
  observed: ObservedRequest[];
  close(): Promise<void>;
}

export const API_KEY = 'key-0123456789abcdef';

/** A service that answers every request through `handler`, and a client of it under a held clock. */
export async function startUpstream(
  handler: Handler,
  overrides: { settings?: Partial<ComplianceSettings>; credentials?: Credentials } = {},
): Promise<Upstream> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      const entry = { method: request.method!, url: request.url!, headers: request.headers, body };
      received.push(entry);
      handler(response, entry, received.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const settings: ComplianceSettings = {
    baseUrl: new URL(`http://127.0.0.1:${port}/api/v1`),
    auth: 'api_key',
    apiKey: () => API_KEY,
    authUrl: null,
    clientId: null,
    clientSecret: null,
    redirectUri: null,
    scopes: ['read'],
    pkce: true,
    state: true,
    requestsPerMinute: 60,
    paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
    timeoutMs: 30_000,
    ...overrides.settings,
  };
  const clock = new HeldClock();
  const budget = createBudget({ requestsPerMinute: settings.requestsPerMinute, clock });
  const observed: ObservedRequest[] = [];
  const client = createClient({
    settings,
    credentials: overrides.credentials ?? apiKeyCredentials(settings.apiKey!),
    budget,
    clock,
    pointers: {
      policy: ['policyId', 'policy.id', 'id'],
      risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
      vendor: ['vendorId', 'vendor.id', 'id'],
    },
    observe: (request) => observed.push(request),
  });
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { client, budget, clock, settings, received, observed, close };
}

export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
