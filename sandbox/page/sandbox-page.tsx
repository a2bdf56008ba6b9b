import { AccessPart, FaultsPart, RegistrationsPart, ScenariosPart } from './controls-part.tsx';
import { DeliveriesPart } from './deliveries-part.tsx';
import { Layout } from './layout.tsx';
import type { PageModel } from './model.ts';
import { queryOf, RecordsPart } from './records-part.tsx';
import { ShapesPart } from './shapes-part.tsx';

interface Props {
  model: PageModel;
  /** Why the last form could not be done; null when it was. */
  notice: string | null;
}

/** Everything that changes, in parts that the script can exchange one by one. */
export function Parts({ model, notice }: Props) {
  return (
    <>
      <div data-part="notice" role="alert">
        {notice !== null && <p class="notice">{notice}</p>}
      </div>
      <div class="columns">
        <div class="stack">
          <RecordsPart model={model} />
          <DeliveriesPart model={model} />
        </div>
        <div class="stack">
          <ScenariosPart model={model} />
          <RegistrationsPart model={model} />
          <FaultsPart model={model} />
          <ShapesPart model={model} />
          <AccessPart model={model} />
        </div>
      </div>
    </>
  );
}

export function SandboxPage({ model, notice }: Props) {
  return (
    <Layout title="What it holds">
      <div class="wrap">
        <header class="top">
          <h1>Compliance sandbox</h1>
          <p>
            A stand-in for the compliance service, in memory. The API is below <code>/v1</code>, its
            description at <a href="/openapi.json">openapi.json</a>. Started with the seed number{' '}
            {model.seedNumber}. All times are UTC.
          </p>
          <span class="live" data-live role="status">
            reload for news
          </span>
        </header>
        <main data-stream={`/parts${queryOf(model.view)}`}>
          <Parts model={model} notice={notice} />
        </main>
      </div>
    </Layout>
  );
}
