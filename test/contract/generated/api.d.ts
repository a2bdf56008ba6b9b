// biome-ignore-all lint: generated
// biome-ignore-all format: generated
// biome-ignore-all assist: generated
export interface paths {
    "/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List policies */
        get: operations["listPolicies"];
        put?: never;
        /** Create a policy; emits policy.created */
        post: operations["createPolicy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/risk-assessments/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Fetch a risk assessment */
        get: operations["getRiskAssessment"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/risk-assessments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Create a risk assessment; emits risk.identified */
        post: operations["createRiskAssessment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/vendors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List vendors */
        get: operations["listVendors"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/vendors/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Fetch a vendor */
        get: operations["getVendor"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Register an address for deliveries */
        post: operations["registerWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    "policy.created": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of policy.created */
        post: operations["deliver_policy_created"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "policy.updated": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of policy.updated */
        post: operations["deliver_policy_updated"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "policy.deleted": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of policy.deleted */
        post: operations["deliver_policy_deleted"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "policy.approved": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of policy.approved */
        post: operations["deliver_policy_approved"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "risk.identified": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of risk.identified */
        post: operations["deliver_risk_identified"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "risk.assessed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of risk.assessed */
        post: operations["deliver_risk_assessed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "risk.mitigated": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of risk.mitigated */
        post: operations["deliver_risk_mitigated"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "risk.escalated": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of risk.escalated */
        post: operations["deliver_risk_escalated"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "vendor.added": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of vendor.added */
        post: operations["deliver_vendor_added"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "vendor.updated": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of vendor.updated */
        post: operations["deliver_vendor_updated"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "vendor.assessed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of vendor.assessed */
        post: operations["deliver_vendor_assessed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "vendor.removed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delivery of vendor.removed */
        post: operations["deliver_vendor_removed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        Event_policy_created: {
            id: string;
            /** @enum {string} */
            type: "policy.created";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["Policy"];
        } & {
            [key: string]: unknown;
        };
        Policy: {
            policyId: string;
            name: string;
            /**
             * @description Numbers separated by dots.
             * @example 1.0
             */
            version: string;
            /**
             * @description A new policy is `draft`.
             * @example draft
             */
            status: string;
        } & {
            [key: string]: unknown;
        };
        Event_policy_updated: {
            id: string;
            /** @enum {string} */
            type: "policy.updated";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["Policy"];
        } & {
            [key: string]: unknown;
        };
        Event_policy_deleted: {
            id: string;
            /** @enum {string} */
            type: "policy.deleted";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["Policy"];
        } & {
            [key: string]: unknown;
        };
        Event_policy_approved: {
            id: string;
            /** @enum {string} */
            type: "policy.approved";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["Policy"];
        } & {
            [key: string]: unknown;
        };
        Event_risk_identified: {
            id: string;
            /** @enum {string} */
            type: "risk.identified";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["RiskEventData"];
        } & {
            [key: string]: unknown;
        };
        /** @description Assumed; the specification does not show it. */
        RiskEventData: {
            riskAssessmentId: string;
        } & {
            [key: string]: unknown;
        };
        Event_risk_assessed: {
            id: string;
            /** @enum {string} */
            type: "risk.assessed";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["RiskEventData"];
        } & {
            [key: string]: unknown;
        };
        Event_risk_mitigated: {
            id: string;
            /** @enum {string} */
            type: "risk.mitigated";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["RiskEventData"];
        } & {
            [key: string]: unknown;
        };
        Event_risk_escalated: {
            id: string;
            /** @enum {string} */
            type: "risk.escalated";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["RiskEventData"];
        } & {
            [key: string]: unknown;
        };
        Event_vendor_added: {
            id: string;
            /** @enum {string} */
            type: "vendor.added";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["VendorEventData"];
        } & {
            [key: string]: unknown;
        };
        /** @description Assumed; the specification does not show it. */
        VendorEventData: {
            vendorId: string;
        } & {
            [key: string]: unknown;
        };
        Event_vendor_updated: {
            id: string;
            /** @enum {string} */
            type: "vendor.updated";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["VendorEventData"];
        } & {
            [key: string]: unknown;
        };
        Event_vendor_assessed: {
            id: string;
            /** @enum {string} */
            type: "vendor.assessed";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["VendorEventData"];
        } & {
            [key: string]: unknown;
        };
        Event_vendor_removed: {
            id: string;
            /** @enum {string} */
            type: "vendor.removed";
            /** Format: date-time */
            created: string;
            data: components["schemas"]["VendorEventData"];
        } & {
            [key: string]: unknown;
        };
        PolicyList: {
            data: components["schemas"]["Policy"][];
            meta: components["schemas"]["Meta"];
        } & {
            [key: string]: unknown;
        };
        /** @description Where a page stands in its list. */
        Meta: {
            page?: number;
            perPage?: number;
            total?: number;
        } & {
            [key: string]: unknown;
        };
        Problem: {
            type: string;
            title: string;
            status: number;
            detail: string;
            code: string;
        } & {
            [key: string]: unknown;
        };
        PolicyAnswer: {
            data: components["schemas"]["Policy"];
        } & {
            [key: string]: unknown;
        };
        /** @description Assumed. Further fields become the record’s own. */
        PolicyCreate: {
            name: string;
            version?: string;
            /** @enum {string} */
            status?: "draft";
        } & {
            [key: string]: unknown;
        };
        RiskAssessmentAnswer: {
            data: components["schemas"]["RiskAssessment"];
        } & {
            [key: string]: unknown;
        };
        /** @description Its further fields are not specified. */
        RiskAssessment: {
            id: string;
        } & {
            [key: string]: unknown;
        };
        /** @description Assumed. Further fields become the record’s own. */
        RiskAssessmentCreate: {
            name: string;
            /** @enum {string} */
            status?: "identified";
        } & {
            [key: string]: unknown;
        };
        VendorList: {
            data: components["schemas"]["Vendor"][];
            meta: components["schemas"]["Meta"];
        } & {
            [key: string]: unknown;
        };
        /** @description Its further fields are not specified. */
        Vendor: {
            id: string;
        } & {
            [key: string]: unknown;
        };
        VendorAnswer: {
            data: components["schemas"]["Vendor"];
        } & {
            [key: string]: unknown;
        };
        WebhookRegistrationAnswer: {
            data: components["schemas"]["WebhookRegistration"];
        } & {
            [key: string]: unknown;
        };
        WebhookRegistration: {
            id: string;
            url?: string;
            events?: string[];
            description?: string;
            /** @description What deliveries are signed with. */
            secret?: string;
        } & {
            [key: string]: unknown;
        };
        WebhookRegistrationRequest: {
            /** Format: uri */
            url: string;
            events: string[];
            description: string;
            /** @description Assumed; one is made without it. */
            secret?: string;
        } & {
            [key: string]: unknown;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listPolicies: {
        parameters: {
            query?: {
                page?: number;
                perPage?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of policies. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyList"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The query does not fit. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createPolicy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PolicyCreate"];
            };
        };
        responses: {
            /** @description The new policy. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyAnswer"];
                };
            };
            /** @description The body is not JSON. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not application/json. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body does not fit. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getRiskAssessment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The record’s identifier. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The risk assessment. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RiskAssessmentAnswer"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such record. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createRiskAssessment: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RiskAssessmentCreate"];
            };
        };
        responses: {
            /** @description The new risk assessment. */
            201: {
                headers: {
                    location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RiskAssessmentAnswer"];
                };
            };
            /** @description The body is not JSON. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not application/json. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body does not fit. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listVendors: {
        parameters: {
            query?: {
                page?: number;
                perPage?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of vendors. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VendorList"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The query does not fit. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getVendor: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The record’s identifier. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The vendor. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VendorAnswer"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such record. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    registerWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WebhookRegistrationRequest"];
            };
        };
        responses: {
            /** @description The registration, with its signing secret. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookRegistrationAnswer"];
                };
            };
            /** @description The body is not JSON. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials are missing or not valid. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The credentials lack the scope that this takes. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not application/json. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body does not fit. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests: see Retry-After. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A failure, switched on or real. */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deliver_policy_created: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_policy_created"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_policy_updated: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_policy_updated"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_policy_deleted: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_policy_deleted"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_policy_approved: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_policy_approved"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_risk_identified: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_risk_identified"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_risk_assessed: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_risk_assessed"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_risk_mitigated: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_risk_mitigated"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_risk_escalated: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_risk_escalated"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_vendor_added: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_vendor_added"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_vendor_updated: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_vendor_updated"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_vendor_assessed: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_vendor_assessed"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deliver_vendor_removed: {
        parameters: {
            query?: never;
            header: {
                /** @description t=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed) */
                "X-Webhook-Signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event_vendor_removed"];
            };
        };
        responses: {
            /** @description Nothing more is sent to this registration. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Taken; it is not sent again. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again, signed anew, until the schedule ends. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
