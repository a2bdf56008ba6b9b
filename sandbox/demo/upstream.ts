import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import type { Shapes, UpstreamRecords } from './compare.ts';

export interface DeliveryLogEntry {
  kind: Kind;
  recordId: string;
  created: string;
  outcome: string;
  faults: string[];
}

interface State {
  policies: JsonObject[];
  riskAssessments: JsonObject[];
  vendors: JsonObject[];
  unannouncedRiskAssessments: string[];
  scenario: { failure: string | null };
}

const TIMEOUT_MS = 10_000;

export type SandboxControls = ReturnType<typeof sandboxControls>;

/** The sandbox's own controls, by HTTP: what it holds, and what is done to it. `url` without a path. */
export function sandboxControls(url: string) {
  /** With a body a POST, else a GET. */
  const send = (path: string, body?: object, timeoutMs = TIMEOUT_MS): Promise<Response> =>
    fetch(`${url}/_sandbox/${path}`, {
      signal: AbortSignal.timeout(timeoutMs),
      ...(body === undefined
        ? {}
        : {
            method: 'POST',
            body: JSON.stringify(body),
            headers: { 'content-type': 'application/json' },
          }),
    });

  async function ask<T>(...[path, ...rest]: Parameters<typeof send>): Promise<T> {
    return (await answerTo(path, await send(path, ...rest))) as T;
  }

  return {
    shapes: () => ask<Shapes>('shapes'),
    /** Changes something that has an event. */
    async touch(): Promise<void> {
      const id = (await ask<State>('state')).vendors[0]?.['id'];
      const fields = { contact: 'first-contact@vendor.example' };
      await ask('mutate', { kind: 'vendor', op: 'update', id, fields });
    },
    /** `unannounced`: assessments of which no event was ever delivered. */
    async state(): Promise<{ records: UpstreamRecords; unannounced: string[] }> {
      const state = await ask<State>('state');
      if (state.scenario.failure !== null) {
        throw new MirrorError('sandbox', `the sandbox's scenario failed: ${state.scenario.failure}`);
      }
      return {
        records: {
          policy: byId(state.policies, 'policyId'),
          risk_assessment: byId(state.riskAssessments, 'id'),
          vendor: byId(state.vendors, 'id'),
        },
        unannounced: state.unannouncedRiskAssessments,
      };
    },
    /** The records that the story is about; none when the record `id` does not allow it as it is now. */
    async play(name: string, id: string | null): Promise<{ kind: Kind; id: string }[]> {
      const response = await send('scenario', { name, ...(id === null ? {} : { id }) });
      if (response.status !== 404 && response.status !== 409) {
        return ((await answerTo('scenario', response)) as { records: { kind: Kind; id: string }[] }).records;
      }
      await response.body?.cancel();
      return [];
    },
    startLively: (perSecond: number) => ask('scenario', { name: 'lively', perSecond }),
    setFaults: (faults: object) => ask('faults', faults),
    /** Stops the scenario and waits until no delivery is under way. False: some still are. */
    async quiesce(timeoutMs: number): Promise<boolean> {
      return (await ask<{ quiet: boolean }>('quiesce', { timeoutMs }, timeoutMs + TIMEOUT_MS)).quiet;
    },
    deliveries: async () => (await ask<{ data: DeliveryLogEntry[] }>('deliveries')).data,
  };
}

async function answerTo(path: string, response: Response): Promise<unknown> {
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  const refusal = `the sandbox answered ${response.status} to ${path}: ${text.slice(0, 300)}`;
  throw new MirrorError('sandbox', refusal);
}

function byId(records: readonly JsonObject[], field: string): Map<string, JsonObject> {
  return new Map(records.map((record) => [String(record[field]), record]));
}
