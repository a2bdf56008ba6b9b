import type { Snapshot } from '../snapshot.ts';
import { count } from '../words.ts';
import { Tile } from './pieces.tsx';

/** In the place of the chart until the first delivery is in: what is left to be done. */
export function FirstSteps({ snapshot: { live } }: { snapshot: Snapshot }) {
  const rejected = Object.values(live.deliveries.lastHour.rejected).reduce((sum, times) => sum + times, 0);
  const steps: [what: string, how: unknown, isDone: boolean][] = [
    [
      'Give it access to the API',
      <>
        <code>COMPLIANCE_BASE_URL</code> and <code>COMPLIANCE_API_KEY</code>. Without them the mirror knows
        only what deliveries say.
      </>,
      !live.eventsOnly,
    ],
    [
      'Set the signing secret',
      <>
        <code>WEBHOOK_SECRETS</code>, as the compliance service shows it. One that registering brings is
        stored by itself.
      </>,
      live.signingSecrets > 0,
    ],
    [
      'Register the webhook',
      <>
        <code>compliance-mirror register --url https://…/webhooks</code>, or in the compliance service itself.
      </>,
      live.secrets.some(({ registration }) => registration !== null),
    ],
    [
      'Send a test delivery',
      <>
        Change a record in the compliance service: its delivery shows here at once.{' '}
        {rejected === 0 ? null : (
          <a href="/deliveries?outcome=rejected">
            {count(rejected, 'delivery was', 'deliveries were')} rejected: see why
          </a>
        )}
      </>,
      false,
    ],
  ];
  return (
    <Tile part="deliveries" title="No delivery has arrived yet: what to do next">
      <ol class="steps">
        {steps.map(([what, how, isDone]) => (
          <li class={isDone ? 'done' : ''}>
            <div>
              <strong>{what}</strong>
              {isDone ? <span class="quiet"> · done</span> : <p>{how}</p>}
            </div>
          </li>
        ))}
      </ol>
      <p class="note">
        <code>compliance-mirror setup</code> asks for all of it, step by step.
      </p>
    </Tile>
  );
}
