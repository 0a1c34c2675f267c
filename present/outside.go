package present

import "github.com/skein-project/skein/api"

// Gateways shows where outside workers attach.
func Gateways(list api.Gateways) Table {
	type G = api.Gateway
	observed := list.ObservedAt
	return tableOf(list.Gateways,
		col("HOST", Text, 0, func(g G) Cell { return word(g.Node) }),
		col("LIVE", State, 0, func(g G) Cell { return word(g.Live) }),
		col("WORKERS", Number, 0, func(g G) Cell {
			if g.Workers == nil {
				return Cell{Text: Unknown}
			}
			return whole(*g.Workers)
		}),
		col("URL", Text, 0, func(g G) Cell { return word(g.URL) }),
		col("STARTED", Time, 1, func(g G) Cell { return at(g.Opened, observed) }),
		col("KEY_ENDS", Time, 2, func(g G) Cell { return Cell{Text: Ahead(g.KeyEnds, observed), Exact: Stamp(g.KeyEnds)} }),
	)
}

// OutsideWorkers shows the workers that no host runs.
func OutsideWorkers(list api.OutsideWorkers) Table {
	type W = api.OutsideWorker
	observed := list.ObservedAt
	return tableOf(list.Workers,
		col("WORKER", Text, 0, func(w W) Cell { return Cell{Text: string(w.Worker)} }),
		col("NAME", Text, 1, func(w W) Cell { return word(w.Name) }),
		col("OWNER", Text, 0, func(w W) Cell { return word(w.Owner) }),
		col("STATE", State, 0, func(w W) Cell { return word(w.State) }),
		col("TRUSTED", Text, 1, func(w W) Cell { return yes(w.Trusted) }),
		col("ZONE", Text, 2, func(w W) Cell { return word(w.Zone) }),
		col("SET", Time, 3, func(w W) Cell { return at(w.At, observed) }),
		col("BY", Text, 4, func(w W) Cell { return word(w.Actor) }),
		more("REVOKED", Time, func(w W) Cell { return moment(w.RevokedAt) }),
		more("REVOKED_BY", Text, func(w W) Cell { return word(w.RevokedBy) }),
		more("KEY", Text, func(w W) Cell { return word(w.Key) }),
	)
}

// AccessTokens shows the access tokens.
func AccessTokens(list api.AccessTokens) Table {
	type T = api.AccessToken
	observed := list.ObservedAt
	return tableOf(list.Tokens,
		col("ID", Text, 0, func(t T) Cell { return Cell{Text: t.ID} }),
		col("OWNER", Text, 0, func(t T) Cell { return word(t.Owner) }),
		col("STATE", State, 0, func(t T) Cell { return word(t.State) }),
		col("ROLES", Text, 1, func(t T) Cell { return names(t.Roles) }),
		col("EXPIRES", Time, 1, func(t T) Cell { return Cell{Text: Ahead(t.ExpiresAt, observed), Exact: Stamp(t.ExpiresAt)} }),
		col("SET", Time, 2, func(t T) Cell { return at(t.At, observed) }),
		col("BY", Text, 3, func(t T) Cell { return word(t.Actor) }),
	)
}
