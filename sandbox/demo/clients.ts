import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import type { Shapes, UpstreamRecords } from './compare.ts';

export interface DeliveryLogEntry {
  kind: Kind;
  recordId: string;
  created: string;
  faults: string[];
}

interface State {
  policies: JsonObject[];
  riskAssessments: JsonObject[];
  vendors: JsonObject[];
  unannouncedRiskAssessments: string[];
}

const TIMEOUT_MS = 10_000;

/** The record or the deletion does not exist, or its state does not allow the request. */
const NOT_NOW: ReadonlySet<number> = new Set([404, 409]);

/** Sends requests below `url`: a POST with a body, otherwise a GET. `otherwise`: the result if the request is not possible now. */
function askerOf(url: string, headers: Record<string, string> = {}) {
  return async function ask<T>(
    path: string,
    body?: object,
    { timeoutMs = TIMEOUT_MS, otherwise }: { timeoutMs?: number; otherwise?: T } = {},
  ): Promise<T> {
    const response = await fetch(`${url}/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
      headers: { ...headers, 'content-type': 'application/json' },
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text) as T;
    if (NOT_NOW.has(response.status) && otherwise !== undefined) return otherwise;
    throw new MirrorError('demo', `${url}/${path} answered ${response.status}: ${text.slice(0, 300)}`);
  };
}

/** What an operator does through the operators' listener. */
export function operatorAt(url: string, token: string) {
  const ask = askerOf(`${url}/api`, { authorization: `Bearer ${token}` });
  return {
    requestFullSync: () => ask('sync-runs', {}),
    /** The newest ones. */
    async syncRuns() {
      const page = await ask<{ items: { id: number; kind: Kind; finished_at: string | null }[] }>(
        'sync-runs?limit=500',
      );
      return page.items;
    },
    async approveDeletions() {
      const { sync_runs } = await ask<{ sync_runs: { kind: Kind; digest: string | null }[] }>(
        'deletions?limit=1',
      );
      const approved = [];
      for (const { kind, digest } of sync_runs) {
        if (digest === null) continue;
        const { ids } = await ask('deletions/approve', { digest }, { otherwise: { ids: [] as string[] } });
        if (ids.length > 0) approved.push({ kind, count: ids.length });
      }
      return approved;
    },
  };
}

export type SandboxControls = ReturnType<typeof sandboxControls>;

/** The sandbox's controls. `url`: its address without a path. */
export function sandboxControls(url: string) {
  const ask = askerOf(`${url}/_sandbox`);
  return {
    shapes: () => ask<Shapes>('shapes'),
    /** Changes something that has an event. */
    async touch(): Promise<void> {
      const id = (await ask<State>('state')).vendors[0]?.['id'];
      const fields = { contact: 'first-contact@vendor.example' };
      await ask('mutate', { kind: 'vendor', op: 'update', id, fields });
    },
    /** `unannounced`: assessments without a delivered event. */
    async state(): Promise<{ records: UpstreamRecords; unannounced: string[] }> {
      const state = await ask<State>('state');
      return {
        records: {
          policy: byId(state.policies, 'policyId'),
          risk_assessment: byId(state.riskAssessments, 'id'),
          vendor: byId(state.vendors, 'id'),
        },
        unannounced: state.unannouncedRiskAssessments,
      };
    },
    /** Plays a story. Resolves with its records; with none if the record `id` does not allow it now. */
    async play(name: string, id: string | null): Promise<{ kind: Kind; id: string }[]> {
      const request = { name, id: id ?? undefined };
      const otherwise = { records: [] as { kind: Kind; id: string }[] };
      return (await ask('scenario', request, { otherwise })).records;
    },
    startLively: (perSecond: number) => ask('scenario', { name: 'lively', perSecond }),
    setFaults: (faults: object) => ask('faults', faults),
    /** Stops the scenario and waits for all deliveries. False: some are still under way. */
    async quiesce(timeoutMs: number): Promise<boolean> {
      return (await ask<{ quiet: boolean }>('quiesce', { timeoutMs }, { timeoutMs: timeoutMs + TIMEOUT_MS }))
        .quiet;
    },
    deliveries: async () => (await ask<{ data: DeliveryLogEntry[] }>('deliveries')).data,
  };
}

function byId(records: readonly JsonObject[], field: string): Map<string, JsonObject> {
  return new Map(records.map((record) => [String(record[field]), record]));
}
