// Facts about people and money as sentences.
import type { EventData } from "../api/types";
import type { Sentence } from "./event";
import { money } from "./money";
import type { Role } from "./status";

export function account(data: EventData): Sentence | undefined {
  return people(data) ?? providers(data) ?? billing(data);
}

function say(role: Role | "strong", what: string, detail: string): Sentence {
  return { role, what, detail };
}

function people(data: EventData): Sentence | undefined {
  switch (data.type) {
    case "SignedIn":
      return say("strong", "signed in", "");
    case "SignedOut":
      return say("strong", "signed out", "");
    case "SignInRefused":
      return say("warn", "sign-in refused", data.user ?? "unknown address");
    case "MemberAdded":
      return say("strong", "member added", `${data.user} as ${data.role}`);
    case "MemberRoleChanged":
      return say("strong", "role changed", `${data.user} from ${data.from} to ${data.to}`);
    case "ProjectRoleGranted":
      return say("strong", "project role given", `${data.user} is ${data.role} in ${data.project}`);
    case "ProjectRoleRevoked":
      return say("strong", "project role taken", `${data.user} was ${data.role} in ${data.project}`);
    case "MemberRemoved":
      return say("strong", "member removed", data.user);
    case "InvitationCreated":
      return say("strong", "invited", `${data.invitation} as ${data.role}`);
    case "InvitationRevoked":
      return say("strong", "invitation revoked", data.invitation);
    default:
      return undefined;
  }
}

function providers(data: EventData): Sentence | undefined {
  switch (data.type) {
    case "ProviderChanged":
      return say("strong", "provider declared", `${data.name} at ${data.issuer}`);
    case "ProviderDeleted":
      return say("strong", "provider deleted", data.provider);
    case "ProviderCheckRequested":
      return say("neutral", "check requested", data.provider);
    case "ProviderDomainVerified":
      return say("good", "domain proved", `${data.host} of ${data.provider}`);
    case "ProviderUnavailable":
      return say("bad", "provider is away", `${data.provider}: ${data.why}`);
    case "ProviderAnswers":
      return say("good", "provider answers", data.provider);
    case "ProviderSignInRefused":
      return say("warn", "sign-in refused", `${data.provider}: ${data.why}`);
    case "IdentityLinked":
      return say("neutral", "vouched for", `${data.user} by ${data.provider}`);
    case "IdentityEnded":
      return say("strong", "no longer vouched for", `${data.user} by ${data.provider}: ${data.reason} (${data.evidence})`);
    default:
      return undefined;
  }
}

function billing(data: EventData): Sentence | undefined {
  switch (data.type) {
    case "BillingAccountChanged":
      return say("strong", "billing account changed", `${data.currency}, months in ${data.time_zone}`);
    case "BudgetChanged":
      return say("strong", "budget changed", data.limit_micros == null ? "removed" : `at the limit: ${data.at_limit}`);
    case "BudgetReached": {
      const amounts = `${money(data.spent_micros, data.currency)} of ${money(data.limit_micros, data.currency)}`;
      return say("bad", "budget reached", `${data.percent} %: ${amounts}`);
    }
    case "OfferPublished":
      return say("strong", data.retired ? "offer retired" : "offer published", `${data.offer} version ${data.version}`);
    case "SubscriptionChanged":
      return say("strong", "subscription changed", `${data.offer} version ${data.version} from ${data.from.slice(0, 16)}Z`);
    case "BalanceExhausted":
      return say("bad", "no balance left", `${money(data.balance_micros, data.currency)}; at zero: ${data.at_zero}`);
    case "CreditGranted":
      return say("good", "credit granted", money(data.micros, data.currency));
    case "InvoiceIssued":
      return say("strong", "invoice issued", `${data.number}, ${money(data.due_micros, data.currency)} to pay`);
    case "InvoicePaid":
      return say("good", "invoice paid", data.number);
    case "InvoiceVoided":
      return say("strong", "invoice voided", data.number);
    default:
      return undefined;
  }
}
