package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// pump tells the holder of all workers, and then what becomes of them.
func (h *holding) pump(ctx context.Context) error {
	client, err := h.client()
	if err != nil {
		return err
	}
	ids, err := client.Do(ctx, client.B().Zrange().Key(h.prefix+"live").Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, callsAtOnce) {
		all, err := h.tellAll(some)
		if err != nil {
			return err
		}
		for i, got := range all {
			if err := h.skip(h.greet(ctx, some[i], got)); err != nil {
				return err
			}
		}
	}
	for trimmed := time.Now(); ; {
		got, err := client.Do(ctx, client.B().Xread().Count(entries).Block(block.Milliseconds()).Streams().Key(h.prefix+"in").Id(h.last).Build()).AsXRead()
		if rueidis.IsRedisNil(err) {
			if err := h.there(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := h.take(ctx, got[h.prefix+"in"]); err != nil {
			return err
		}
		if time.Since(trimmed) >= trimEvery {
			if _, err := h.mine(h.scripts.trim, h.last); err != nil {
				return err
			}
			trimmed = time.Now()
		}
	}
}

// tellAll asks what the holder is to know of workers.
func (h *holding) tellAll(ids []string) ([]answer, error) {
	calls := make([]call, len(ids))
	for i, id := range ids {
		calls[i] = call{script: h.scripts.tell, args: []string{id}}
	}
	return h.mineAll(calls)
}

// take tells the holder what entries say. Of workers that it is to be told of as a whole
// that is asked for beforehand, of many at once.
func (h *holding) take(ctx context.Context, list []rueidis.XRangeEntry) error {
	var ids []string
	known := map[string]answer{}
	for _, e := range list {
		id := e.FieldValues["w"]
		if _, asked := known[id]; !asked && h.toTell(id, e.FieldValues["k"]) {
			known[id] = nil
			ids = append(ids, id)
		}
	}
	for some := range slices.Chunk(ids, callsAtOnce) {
		all, err := h.tellAll(some)
		if err != nil {
			return err
		}
		for i, got := range all {
			known[some[i]] = got
		}
	}
	for _, e := range list {
		if err := h.skip(h.entry(ctx, e, known)); err != nil {
			return err
		}
	}
	return nil
}

// toTell reports that an entry is about a worker that the holder is to be told of as a whole.
func (h *holding) toTell(id, kind string) bool {
	_, told := h.told[id]
	return !told || kind == "join"
}

// skip passes over what somebody else wrote about one worker: the others are served.
func (h *holding) skip(err error) error {
	if errors.Is(err, errAnswer) {
		h.log.Warn().Err(err).Msg("outside worker left out")
		return nil
	}
	return err
}

// there reports an error if this holder's fence is not the one in Redis any more: it was
// emptied, or set back.
func (h *holding) there() error {
	_, err := h.mine(h.scripts.tell, "")
	return err
}

// greet tells the holder what a worker has and has done.
func (h *holding) greet(ctx context.Context, id string, got answer) error {
	switch got.what() {
	case "GONE":
		return nil
	case "OK":
	default:
		return fmt.Errorf("fence: %s", got.what())
	}
	n, err := strconv.ParseUint(got.text(1), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	h.told[id] = n
	fields, refTexts, kept := got.list(2), got.list(3), got.list(4)
	w := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		w[fields[i]] = fields[i+1]
	}
	j := stream.Join{Owner: w["owner"], Draining: w["draining"] == "1", Gateway: cluster.NodeID(w["gateway"])}
	var errs [5]error
	j.Session, errs[0] = strconv.ParseUint(w["session"], 10, 64)
	j.Slots, errs[1] = strconv.Atoi(w["slots"])
	j.Room, errs[2] = strconv.Atoi(w["room"])
	j.MemoryBytes, errs[3] = strconv.ParseUint(w["memory"], 10, 64)
	errs[4] = json.Unmarshal([]byte(w["executors"]), &j.Executors)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("%w: worker %.40q: %w", errAnswer, id, err)
	}
	here := w["here"] == "1"
	if !here && len(kept) == 0 {
		return nil
	}
	if j.Assigned, err = refsOf(refTexts); err != nil {
		return err
	}
	slices.SortFunc(j.Assigned, compareRefs)
	if err := h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Join: &j}); err != nil {
		return err
	}
	for i := 1; i < len(kept); i += 2 {
		if err := h.result(ctx, id, kept[i]); err != nil {
			return err
		}
	}
	if here {
		return nil
	}
	return h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Part: &stream.Part{Session: j.Session, Gone: len(j.Assigned) == 0}})
}

func (h *holding) result(ctx context.Context, id, text string) error {
	r := &stream.Result{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return fmt.Errorf("%w: result of %.40q: %w", errAnswer, id, err)
	}
	return h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Result: r})
}

// entry tells the holder what an entry of in says, unless it was told already; known is what
// was asked for of workers after the entry was written.
func (h *holding) entry(ctx context.Context, e rueidis.XRangeEntry, known map[string]answer) error {
	n, err := strconv.ParseUint(e.FieldValues["n"], 10, 64)
	if err != nil || n != h.n+1 {
		return errBehind
	}
	h.last, h.n = e.ID, n
	id, data := e.FieldValues["w"], e.FieldValues["d"]
	if n <= h.told[id] {
		return nil
	}
	if h.toTell(id, e.FieldValues["k"]) {
		got := known[id]
		if got == nil { // it was told of, and parted since
			var err error
			if got, err = h.mine(h.scripts.tell, id); err != nil {
				return err
			}
		}
		delete(known, id)
		return h.greet(ctx, id, got)
	}
	worker := cluster.NodeID(id)
	switch e.FieldValues["k"] {
	case "result":
		return h.result(ctx, id, data)
	case "part":
		delete(h.told, id) // else it would grow with all that ever came
		session, gone, _ := strings.Cut(data, " ")
		of, err := strconv.ParseUint(session, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", errAnswer, err)
		}
		return h.say(ctx, stream.Frame{Worker: worker, Part: &stream.Part{Session: of, Gone: gone == "1"}})
	case "status":
		st, err := statusOf(data)
		if err != nil {
			return err
		}
		return h.say(ctx, stream.Frame{Worker: worker, Status: st})
	}
	return fmt.Errorf("%w: entry %.20q", errAnswer, e.FieldValues["k"])
}

// statusOf reads "kept ready draining", and in the next line attempts and how far each is.
func statusOf(data string) (*stream.Status, error) {
	head, list, _ := strings.Cut(data, "\n")
	st := &stream.Status{Running: []job.Attempt{}}
	f := strings.Fields(head)
	if len(f) != 3 {
		return nil, fmt.Errorf("%w: status %.40q", errAnswer, head)
	}
	var err error
	if st.Kept, err = strconv.Atoi(f[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	st.Ready, st.Draining = f[1] == "1", f[2] == "1"
	if list == "" {
		return st, nil
	}
	for one := range strings.SplitSeq(list, ",") {
		at := strings.LastIndexByte(one, ' ')
		if at < 0 {
			return nil, fmt.Errorf("%w: progress %.40q", errAnswer, one)
		}
		ref, err := refOf(one[:at])
		done, errD := strconv.ParseUint(one[at+1:], 10, 64)
		if err := errors.Join(err, errD); err != nil {
			return nil, err
		}
		st.Running = append(st.Running, ref)
		st.Progress = append(st.Progress, stream.Progress{Attempt: ref, Done: done})
	}
	return st, nil
}
