package scaleout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// compare shows that the table says what the cluster says, and both what one computer alone
// makes of the job.
func (w *show) compare(ctx context.Context, spec job.Spec) error {
	var j api.Job
	if err := w.until(ctx, "a host says how the job ended", func() error {
		return w.ask(ctx, func(ctx context.Context, at *api.Client) (err error) {
			if j, err = at.Job(ctx, string(w.job)); err == nil && !j.State.Final() {
				err = errors.New("it runs still")
			}
			return err
		})
	}); err != nil {
		return err
	}
	if err := w.s.Check(ctx, j); err != nil {
		return err
	}
	c := countOf(j)
	w.result.Chunks, w.result.Outside = c.all, c.outside
	t, err := w.portal.read(ctx, w.job)
	if err != nil {
		return err
	}
	w.result.Rows = t.rows
	w.s.Say("the table has %d rows of chunks, %d of them by outside workers, and the hash of each fits; result_hash is %.16s", t.rows, t.outside, t.hash)
	w.s.Say("now the same job on this machine alone, without a cluster: skein job run --local")
	began := time.Now()
	alone, err := w.alone(ctx, spec)
	if err != nil {
		return err
	}
	if differ := differences(t, j, alone); len(differ) > 0 {
		return fmt.Errorf("the results differ: %s", strings.Join(differ, "; "))
	}
	w.s.Say("alone, within %.0f s: pi = %.9f of %d samples; n, mean, std, min and max in the table are the same to the last bit (mean %#016x)",
		time.Since(began).Seconds(), alone.Aggregates["pi"].Mean, alone.Aggregates["pi"].N, math.Float64bits(t.mean))
	w.s.Say("done: a gateway was lost for %.1f s, Redis for %.1f s, the holder for %.1f s, and Centrifugo as well, and each of %d chunks counts once: %d by %d outside workers, %d by hosts",
		w.result.Gateway.Seconds(), (w.result.Down + w.result.Redis).Seconds(), w.result.Holder.Seconds(), c.all, c.outside, w.o.Workers, c.hosts())
	return nil
}

// alone runs the job by the program's own command, as anybody may.
func (w *show) alone(ctx context.Context, spec job.Spec) (j api.Job, err error) {
	args := []string{
		"job", "run", "--local", "--wasm", w.o.Wasm, "--iterations", fmt.Sprint(spec.Iterations), "--chunk", fmt.Sprint(spec.Chunk), "--seed", fmt.Sprint(spec.Seed), "-o", "json",
	}
	cmd := exec.CommandContext(ctx, w.o.Exe, args...)
	cmd.Dir = w.s.Dir()
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err == nil {
		err = json.Unmarshal(text, &j)
	}
	if err != nil {
		return j, fmt.Errorf("skein %s: %w", strings.Join(args, " "), err)
	}
	return j, nil
}

// differences is in what the table, the cluster and one computer alone do not agree, to the bit.
func differences(t told, j, alone api.Job) (out []string) {
	one := alone.Aggregates["pi"]
	std := math.NaN()
	if one.Std != nil {
		std = *one.Std
	}
	for _, f := range []struct {
		what       string
		table, own float64
	}{{"mean", t.mean, one.Mean}, {"std", t.std, std}, {"min", t.min, one.Min}, {"max", t.max, one.Max}} {
		if math.Float64bits(f.table) != math.Float64bits(f.own) {
			out = append(out, fmt.Sprintf("%s is %v in the table, alone %v", f.what, f.table, f.own))
		}
	}
	if t.n != int64(one.N) || t.n != t.chunks || t.rows != alone.Chunks.Total {
		out = append(out, fmt.Sprintf("%d samples in the table, %d in its %d rows of chunks, alone %d in %d", t.n, t.chunks, t.rows, one.N, alone.Chunks.Total))
	}
	if !t.sound || t.damaged > 0 {
		out = append(out, fmt.Sprintf("result_hash fits the result: %v; rows of chunks of which it does not: %d", t.sound, t.damaged))
	}
	if !reflect.DeepEqual(j.Aggregates, alone.Aggregates) || j.Iterations != alone.Iterations {
		out = append(out, fmt.Sprintf("the cluster says %+v of %+v, alone %+v of %+v", j.Aggregates, j.Iterations, alone.Aggregates, alone.Iterations))
	}
	return out
}
