import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import type { UpstreamRecords } from './compare.ts';
import type { Shapes } from './shaped.ts';

/** The sandbox's own controls, by HTTP: what it holds, and what is done to it. */
export interface SandboxControls {
  shapes(): Promise<Shapes>;
  /** Changes something that events tell of. */
  touch(): Promise<void>;
  state(): Promise<UpstreamState>;
  /** The records that it is about; none when it cannot be told of the record `id` as that stands. */
  tell(story: string, id: string | null): Promise<{ kind: Kind; id: string }[]>;
  startLively(perSecond: number): Promise<void>;
  setFaults(faults: JsonObject): Promise<void>;
  /** Stops the scenario and waits until no delivery is under way. False: some still are. */
  quiesce(timeoutMs: number): Promise<boolean>;
  deliveries(): Promise<DeliveryLogEntry[]>;
}

interface UpstreamState {
  records: UpstreamRecords;
  /** Assessments of which no event was ever delivered. */
  unannounced: string[];
}

export interface DeliveryLogEntry {
  kind: Kind;
  recordId: string;
  created: string;
  outcome: string;
  faults: string[];
}

class SandboxRefusal extends MirrorError {
  readonly status: number;

  constructor(status: number, message: string) {
    super('sandbox', message);
    this.status = status;
  }
}

const TIMEOUT_MS = 10_000;

/** `url` without a path. */
export function sandboxControls(url: string): SandboxControls {
  async function ask(
    method: 'GET' | 'POST',
    path: string,
    body?: unknown,
    timeoutMs = TIMEOUT_MS,
  ): Promise<unknown> {
    const response = await fetch(`${url}/_sandbox/${path}`, {
      method,
      signal: AbortSignal.timeout(timeoutMs),
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new SandboxRefusal(
        response.status,
        `the sandbox answered ${response.status} to ${path}: ${text.slice(0, 300)}`,
      );
    }
    return JSON.parse(text);
  }

  return {
    shapes: async () => (await ask('GET', 'shapes')) as Shapes,
    async touch() {
      const { vendors } = (await ask('GET', 'state')) as { vendors: JsonObject[] };
      const fields = { contact: 'first-contact@vendor.example' };
      await ask('POST', 'mutate', { kind: 'vendor', op: 'update', id: vendors[0]?.['id'], fields });
    },
    async state() {
      const state = (await ask('GET', 'state')) as {
        policies: JsonObject[];
        riskAssessments: JsonObject[];
        vendors: JsonObject[];
        unannouncedRiskAssessments: string[];
        scenario: { failure: string | null };
      };
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
    async tell(story, id) {
      try {
        const told = (await ask('POST', 'scenario', { name: story, ...(id === null ? {} : { id }) })) as {
          records: { kind: Kind; id: string }[];
        };
        return told.records;
      } catch (error) {
        if (error instanceof SandboxRefusal && (error.status === 409 || error.status === 404)) return [];
        throw error;
      }
    },
    async startLively(perSecond) {
      await ask('POST', 'scenario', { name: 'lively', perSecond });
    },
    async setFaults(faults) {
      await ask('POST', 'faults', faults);
    },
    async quiesce(timeoutMs) {
      const answer = (await ask('POST', 'quiesce', { timeoutMs }, timeoutMs + TIMEOUT_MS)) as {
        quiet: boolean;
      };
      return answer.quiet;
    },
    async deliveries() {
      return ((await ask('GET', 'deliveries')) as { data: DeliveryLogEntry[] }).data;
    },
  };
}

function byId(records: readonly JsonObject[], field: string): Map<string, JsonObject> {
  return new Map(records.map((record) => [String(record[field]), record]));
}
