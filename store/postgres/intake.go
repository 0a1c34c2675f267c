package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// intake submits the jobs that are new. What cannot be submitted now stays new.
func (s session) intake(ctx context.Context) error {
	for {
		var rows []row
		err := within(ctx, func(ctx context.Context) (err error) { rows, err = s.db.fresh(ctx); return err })
		if err != nil || len(rows) == 0 {
			return err
		}
		later := 0
		for _, r := range rows {
			wait, err := s.take(ctx, r)
			if err != nil {
				return err
			}
			if wait {
				later++
			}
		}
		if later > 0 || len(rows) < atOnce {
			return within(ctx, func(ctx context.Context) error { return s.db.current(ctx, s.term, s.o.Self) })
		}
	}
}

// take submits one job and says so in the table; later: it is tried again.
func (s session) take(ctx context.Context, r row) (later bool, err error) {
	state, id, why := "taken", job.ID(""), ""
	spec, err := specOf(r)
	if err == nil {
		var sub api.SubmitResponse
		sub, err = s.submit(ctx, r.owner, api.SubmitRequest{Spec: spec})
		id = sub.Job
	}
	if err != nil {
		if p, ok := errors.AsType[*api.Problem](err); ctx.Err() != nil || ok && (p.Retryable() || p.Status >= 500) {
			s.log.Debug().Err(err).Str("row", r.id).Msg("job left for later")
			return true, ctx.Err()
		}
		state, id, why = "rejected", "", err.Error()
		s.log.Info().Err(err).Str("row", r.id).Str("owner", r.owner).Msg("job of the table refused")
	}
	if err := within(ctx, func(ctx context.Context) error { return s.db.mark(ctx, s.term, r.id, state, id, why) }); err != nil {
		return false, err
	}
	s.metrics.taken.WithLabelValues(state).Inc()
	return false, nil
}

// specOf reads what the table says of a job; its errors are for who wrote it.
func specOf(r row) (spec job.Spec, err error) {
	if err := cluster.CheckGrantee(r.owner); err != nil || !strings.HasPrefix(r.owner, cluster.UserPrincipal("")) {
		return spec, fmt.Errorf("owner: %.64q is not a user: want %s and a name", r.owner, cluster.UserPrincipal(""))
	}
	if err := cluster.CheckUserName(strings.TrimPrefix(r.owner, cluster.UserPrincipal(""))); err != nil {
		return spec, fmt.Errorf("owner: %w", err)
	}
	if len(r.spec) > maxSpec {
		return spec, fmt.Errorf("spec: more than %d bytes", maxSpec)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(r.spec)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return spec, fmt.Errorf("spec: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return spec, errors.New("spec: more than one JSON value")
	}
	if spec.Key != "" && spec.Key != r.key {
		return spec, errors.New("spec: its key is not idem_key; leave it out")
	}
	spec.Key = r.key
	return spec.WithDefaults(), nil
}
