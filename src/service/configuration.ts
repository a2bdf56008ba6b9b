import { type Diagnosis, diagnoseRejection } from '../doctor/diagnosis.ts';
import { type Found, findingsOf, type Registration } from '../doctor/findings.ts';
import type { Configuration } from '../ops/api/schemas.ts';
import type { LiveFacts } from '../ops/context.ts';
import type { Config } from '../platform/config.ts';
import { fingerprint, newSalt } from '../platform/fingerprint.ts';
import type { ShownDelivery, StoreSummary } from '../store/reports.ts';
import type { StoredRegistration } from '../store/store.ts';
import type { Base } from './opening.ts';
import { candidateSecrets, faultOfSecret, secretSettings } from './signing-secrets.ts';

/** Rejections since the last accepted delivery, newest first, that are searched for the sender's. */
const REJECTIONS_LOOKED_AT = 50;
/** What a sender with a wrong secret, clock or setting gets. Those for the time prove that it is one. */
const SENDERS_REASONS = /^(bad_signature|timestamp_|bad_timestamp|no_signing_secret)/;

/** What the service runs with and what it finds of its own set-up, for GET /api/configuration. */
export function createConfiguration(options: Base & { receiverUrl: string; facts: () => LiveFacts }) {
  const { config, described, store } = options;
  const salt = newSalt();
  const atStart = described.settings();

  /** Only a secret follows its file; all else is as it was at the start. */
  async function settings(withSecrets: boolean): Promise<Configuration['settings']> {
    const now = atStart.some(({ path, isSecret }) => path !== null && isSecret) ? described.settings() : [];
    const listed = atStart.map((one) =>
      one.isSecret && one.path !== null ? (now.find(({ name }) => name === one.name) ?? one) : one,
    );
    return await Promise.all(
      listed.map(async ({ name, value, source, path, isSecret }) => ({
        name,
        value: isSecret ? null : value,
        source,
        path,
        secret: isSecret,
        fingerprint: isSecret && withSecrets && value !== null ? await fingerprint(value, salt) : null,
      })),
    );
  }

  async function found(): Promise<Found> {
    const [summary, registrations] = [await store.summary(), await store.listRegistrations()];
    const { service, upstream } = options.facts();
    const hasSecret = service.secrets.length > 0;
    return {
      warnings: described.warnings,
      exposures: await store.exposures(),
      api: apiOf(config, upstream, summary),
      toleranceSeconds: config.webhook.toleranceSeconds,
      secrets: service.secrets.map(({ position, registration, last_used_at: lastUsedAt }) => ({
        name:
          registration === null ? `WEBHOOK_SECRETS number ${position}` : `of registration ${registration}`,
        lastUsedAt,
      })),
      registrations: registrations.map((each) => registrationOf(each, { ...options, hasSecret })),
      receiverUrl: `${options.receiverUrl}/webhooks`,
      lastDeliveryAt: summary.last_delivery_at,
      rejected: await rejectedSince(options, summary.last_delivery_at),
    };
  }

  /** `withSecrets`: with fingerprints, by which a holder of the secrets can compare his own. */
  return async (withSecrets: boolean): Promise<Configuration> => ({
    version: options.facts().service.version,
    started_at: new Date(options.startedAt).toISOString(),
    folder: process.cwd(),
    salt: withSecrets ? salt : null,
    settings: await settings(withSecrets),
    findings: findingsOf(await found()),
  });
}

function apiOf(
  config: Config,
  upstream: LiveFacts['upstream'],
  { open_problems_by: open }: StoreSummary,
): Found['api'] {
  if (config.compliance === null) return null;
  const { auth, baseUrl } = config.compliance;
  return {
    origin: baseUrl.origin,
    credentials: {
      api_key: 'COMPLIANCE_API_KEY',
      oauth: 'the sign-in (“login”)',
      service_account: 'COMPLIANCE_CLIENT_SECRET',
    }[auth],
    isRefused: open.some(({ reason }) => reason === 'credentials_rejected'),
    ok: upstream.ok,
    lastOkAt: upstream.last_ok_at,
    lastError: upstream.last_error,
    skewMs: upstream.skew_ms,
  };
}

function registrationOf(
  registration: StoredRegistration,
  { config, hasSecret }: Base & { hasSecret: boolean },
): Registration {
  const { upstreamId, url, delivers, sealedSecret } = registration;
  const fault = faultOfSecret(registration, secretSettings(config));
  return {
    upstreamId,
    url,
    delivers,
    // What it sends may be signed with another one that is known.
    fault: sealedSecret === null && hasSecret ? null : fault,
  };
}

/** The newest rejection since the last accepted delivery, and why; the sender's before a stranger's. */
async function rejectedSince(base: Base, lastDeliveryAt: string | null): Promise<Found['rejected']> {
  const since = lastDeliveryAt === null ? {} : { since: lastDeliveryAt };
  const { store } = base;
  const rejected = { outcome: 'rejected', limit: REJECTIONS_LOOKED_AT } as const;
  const { items } = await store.list('deliveries', { ...rejected, ...since });
  const senders = items.find(({ reason }) => SENDERS_REASONS.test(reason ?? ''));
  const { id } = senders ?? items[0] ?? { id: null };
  // Lists have no bodies.
  const rejection = id === null ? null : await store.show('deliveries', id);
  if (rejection === null) return null;
  const diagnosis = await diagnosisOf(base, rejection);
  return { id: rejection.id, at: rejection.received_at, isSenders: senders !== undefined, diagnosis };
}

/** Why a stored delivery was rejected, by the secrets and settings that the service has now. */
export async function diagnosisOf({ config, store }: Base, rejection: ShownDelivery): Promise<Diagnosis> {
  const secrets = candidateSecrets(config, await store.listRegistrations());
  return diagnoseRejection(rejection, secrets, config.webhook);
}
