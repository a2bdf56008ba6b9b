import { sameText } from '../authentication.ts';
import { includesAll, type Scopes } from '../scopes.ts';

/** Acts for a person who consents in a browser. */
export interface ApplicationClient {
  id: string;
  secret: string;
  /** Compared letter by letter, as RFC 9700 wants it. */
  redirectUri: string;
}

/** Acts for itself, and may do what its scopes say. */
export interface ServiceAccount {
  id: string;
  secret: string;
  scopes: readonly string[];
}

export class Clients {
  readonly application: ApplicationClient;
  readonly serviceAccounts: readonly ServiceAccount[];

  constructor(application: ApplicationClient, serviceAccounts: readonly ServiceAccount[]) {
    this.application = application;
    this.serviceAccounts = serviceAccounts;
  }

  isApplication(id: string, secret: string): boolean {
    return id === this.application.id && sameText(this.application.secret, secret);
  }

  serviceAccount(id: string, secret: string): ServiceAccount | null {
    const account = this.serviceAccounts.find((candidate) => candidate.id === id);
    return account !== undefined && sameText(account.secret, secret) ? account : null;
  }
}

/** What is granted of `wanted`: all of it or nothing; without a wish everything the account has. */
export function scopesForAccount(account: ServiceAccount, wanted: readonly string[]): Scopes | null {
  const held = new Set(account.scopes);
  if (wanted.length === 0) return held;
  return includesAll(held, wanted) ? new Set(wanted) : null;
}
