package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/guard"
)

// artefact is GET /v1/artefacts/{hash}: to a worker what its chunks need, and nothing else,
// whole or in parts (RFC 9110). Its name is its SHA-256.
func (g *Gateway) artefact(w http.ResponseWriter, r *http.Request) {
	const route = "GET /v1/artefacts/{hash}"
	worker, err := g.workerAlone(r)
	if err == nil {
		_, err = g.ownerOf(worker)
	}
	if err != nil {
		if late := g.limits.settle(r); late != nil {
			err = late
		}
		g.problem(w, route, err)
		return
	}
	if err := g.limits.count(r, guard.Ask{Limit: guard.Call, Who: string(worker)}); err != nil {
		g.problem(w, route, err)
		return
	}
	h, err := cluster.ParseHash(r.PathValue("hash"))
	if err != nil || !g.o.Crew.Names(worker, h) {
		g.problem(w, route, api.Errorf(api.CodeNotFound, "no chunk of yours needs the artefact %.64q", r.PathValue("hash")))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	if err := g.o.Artefacts.Fetch(ctx, h, nil); err != nil {
		g.log.Warn().Err(err).Str("artefact", h.String()).Msg("an artefact that a worker needs cannot be had")
		g.problem(w, route, api.Errorf(api.CodeNotReady, "the artefact %s cannot be had now", h))
		return
	}
	f, _, err := g.o.Artefacts.Open(h)
	if err != nil {
		g.problem(w, route, errors.Join(errors.New("open artefact"), err))
		return
	}
	defer f.Close()
	w.Header().Set("Cache-Control", "private, immutable, max-age=31536000")
	w.Header().Set("ETag", `"`+h.String()+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	// The server's own limit is for answers of JSON; this one goes by size.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(artefactTime))
	g.metrics.requests.WithLabelValues(route, "2xx").Inc()
	http.ServeContent(w, r, "", time.Time{}, f)
}

// artefactTime bounds the sending of an artefact: 64 MiB at 1 Mbit/s.
const artefactTime = 10 * time.Minute
