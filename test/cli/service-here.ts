import pino from 'pino';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { startService } from '../../src/service/service.ts';

/**
 * The service of the sources in this process, for commands that ask one: as a process of its own it costs half a second of processor time before it
 * listens. Given a clock, it has no threads either. With `serve` itself: serve.test.ts, canary.test.ts and test/crash.
 */
export async function serviceHere(settings: Readonly<Record<string, string>>) {
  const config = loadConfig(settings);
  const service = await startService({ config, logger: pino({ level: 'silent' }), clock: systemClock() });
  return { deliveries: `${service.receiverUrl}/webhooks`, stop: () => service.stop() };
}

export type ServiceHere = Awaited<ReturnType<typeof serviceHere>>;
