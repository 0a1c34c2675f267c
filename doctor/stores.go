package doctor

import (
	"context"
	"errors"
	"io/fs"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/internal/advice"
	"github.com/skein-project/skein/store/postgres"
	"github.com/skein-project/skein/store/redis"
)

// checkRedis asks the Redis of outside workers, as the daemon does.
func checkRedis(ctx context.Context, h Host) verdict {
	c := h.Config.Redis
	if h.Config.Gateway.Store != config.StoreRedis {
		return skipped("gateway.store is not redis")
	}
	at := redis.Server{Addresses: c.Addresses, Sentinel: c.Sentinel, PasswordFile: c.PasswordFile, TLSCA: c.TLSCA, Prefix: c.Prefix}
	what, warned, err := redis.Examine(ctx, at, h.Cluster)
	return judgeStore(h, at.String(), what, warned, err)
}

// checkPostgres asks the database of jobs, as a holder does.
func checkPostgres(ctx context.Context, h Host) verdict {
	c := h.Config.Postgres
	if c.DSNFile == "" {
		return skipped("postgres.dsn_file is not set")
	}
	what, warned, err := postgres.Examine(ctx, c.DSNFile, h.Cluster)
	return judgeStore(h, c.DSNFile, what, warned, err)
}

// checkCentrifugo asks the Centrifugo of outside workers, as a gateway does and as a worker.
func checkCentrifugo(ctx context.Context, h Host) verdict {
	c := h.Config.Centrifugo
	if h.Config.Gateway.Push != config.PushCentrifugo {
		return skipped("gateway.push is not centrifugo")
	}
	what, warned, err := centrifugo.Examine(ctx, centrifugo.Server{API: c.APIURL, Clients: c.WSURL, KeyFile: c.APIKeyFile, Page: h.Config.Gateway.URL})
	return judgeStore(h, c.APIURL, what, warned, err)
}

// judgeStore judges what an examination of the server named by at found.
func judgeStore(h Host, at, what string, warned []error, err error) verdict {
	if path, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrPermission) && !h.running() {
		return unseen(h, path.Path, err)
	}
	if err != nil {
		detail, next := advice.Of(err)
		return failure("%s: %s", at, detail).advise("%s", next)
	}
	var list []verdict
	for _, w := range warned {
		detail, next := advice.Of(w)
		list = append(list, warning("%s", detail).advise("%s", next))
	}
	all := worse(list, good("%s", what))
	if all.v == api.VerdictWarn && len(list) > 1 { // each has its own advice
		all.hint = ""
		for _, v := range list {
			if all.hint != "" {
				all.hint += "; "
			}
			all.hint += v.hint
		}
	}
	return all
}
