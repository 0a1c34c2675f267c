package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// portalUser is somebody who has but a key, and asks gateways with tokens.
type portalUser struct {
	name, cluster string
	key           ed25519.PrivateKey
}

func newPortalUser(ctx context.Context, t *testing.T, h *host, gateway, name string) *portalUser {
	t.Helper()
	pc := newHomePC(ctx, t, gateway)
	u := &portalUser{name: name, cluster: pc.cluster, key: pc.key}
	u.set(ctx, t, h, false)
	return u
}

func (u *portalUser) set(ctx context.Context, t *testing.T, h *host, disabled bool) {
	t.Helper()
	keys := []string{access.FormatPublicKey(u.key.Public().(ed25519.PublicKey))}
	if _, err := h.api.SetUser(ctx, u.name, api.UserRequest{Role: "submitter", Keys: keys, Disabled: disabled}); err != nil {
		t.Fatal(err)
	}
}

func (u *portalUser) token() (string, error) {
	return access.Mint(u.cluster, u.name, access.Submitter, u.key, "id", time.Now(), 10*time.Minute)
}

func (u *portalUser) ask(ctx context.Context, method, url string, body, out any) error {
	token, err := u.token()
	if err != nil {
		return err
	}
	return outsideAsk(ctx, method, url, token, body, out)
}

// submit sends a module and a job to a gateway.
func (u *portalUser) submit(ctx context.Context, gateway string, spec job.Spec) (out api.SubmitResponse, err error) {
	module, err := os.ReadFile(filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		return out, err
	}
	token, err := u.token()
	if err != nil {
		return out, err
	}
	var a api.Artefact
	if err := outsideSend(ctx, http.MethodPut, gateway+"/v1/artefacts", http.Header{"Authorization": {"Bearer " + token}}, module, &a); err != nil {
		return out, err
	}
	spec.Artefact = a.Hash
	err = u.ask(ctx, http.MethodPost, gateway+"/v1/jobs", api.SubmitRequest{Spec: spec}, &out)
	return out, err
}

// watch reads the stream of a job until it ends, as lines or as events.
func (u *portalUser) watch(ctx context.Context, gateway string, id job.ID, sse bool, each func(api.Job)) error {
	token, err := u.token()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+"/v1/jobs/"+string(id)+"/watch", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if sse {
		r.Header.Set("Accept", "text/event-stream")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Bytes()
		if sse {
			data, ok := bytes.CutPrefix(text, []byte("data: "))
			if !ok {
				continue
			}
			text = data
		}
		var line struct {
			api.Job
			Problem *api.Problem `json:"problem"`
		}
		switch err := json.Unmarshal(text, &line); {
		case len(text) == 0:
		case err != nil:
			return fmt.Errorf("%s: %w", text, err)
		case line.Problem != nil:
			return line.Problem
		default:
			each(line.Job)
		}
	}
	return lines.Err()
}

// TestUserAtGateways: who is no member submits by a token at a gateway that is no holder,
// and watches; that host is killed, and the user goes on at another, where the same
// submission is the same job. To others there is no such job, what is too long is refused,
// and the stream of a user who is disabled ends.
func TestUserAtGateways(t *testing.T) {
	parallel(t)
	d, ctx, urls := startGateways(t, 3, "[api]\nbearer = \"all\"\n")
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := d.other(holder)
	var next *host
	for _, h := range d.hosts {
		if h != holder && h != first {
			next = h
		}
	}
	ann, bob := newPortalUser(ctx, t, holder, urls[first], "ann"), newPortalUser(ctx, t, holder, urls[first], "bob")
	for h, url := range urls {
		eventually(ctx, t, 30*time.Second, h.name+" knows both", func() error {
			return errors.Join(ann.ask(ctx, http.MethodGet, url+"/v1/jobs", nil, nil), bob.ask(ctx, http.MethodGet, url+"/v1/jobs", nil, nil))
		})
	}
	spec := job.Spec{Name: "nightly", Key: "nightly-1", Iterations: 60_000, Chunk: 300}
	made, err := ann.submit(ctx, urls[first], spec)
	if err != nil || !made.Created {
		t.Fatalf("%+v, %v", made, err)
	}
	killed := false
	cut := ann.watch(ctx, urls[first], made.Job, true, func(j api.Job) {
		if j.Chunks.Accepted > 0 && !killed {
			killed = true
			kill(t, first)
		}
	})
	if _, ok := errors.AsType[*api.Problem](cut); ok || cut == nil || !killed {
		t.Fatalf("the gateway was to be killed before the job is done: %v", cut)
	}

	there := urls[next]
	again, err := ann.submit(ctx, there, spec)
	if err != nil || again.Created || again.Job != made.Job {
		t.Fatalf("submitted again: %+v, %v", again, err)
	}
	path := there + "/v1/jobs/" + string(made.Job)
	for method, p := range map[string]string{http.MethodGet: path, http.MethodPost: path + "/stop"} {
		if err := bob.ask(ctx, method, p, struct{}{}, nil); !api.IsCode(err, api.CodeNotFound) {
			t.Errorf("%s %s by another: %v", method, p, err)
		}
	}
	if err := bob.watch(ctx, there, made.Job, false, func(api.Job) {}); err == nil || !strings.HasPrefix(err.Error(), "404") {
		t.Errorf("watched by another: %v", err)
	}
	var list api.Jobs
	if err := bob.ask(ctx, http.MethodGet, there+"/v1/jobs", nil, &list); err != nil || len(list.Jobs) != 0 {
		t.Errorf("the jobs of another: %+v, %v", list.Jobs, err)
	}
	var last api.Job
	if err := ann.watch(ctx, there, made.Job, false, func(j api.Job) { last = j }); err != nil || last.State != job.Completed {
		t.Fatalf("at the next gateway: %s, %v", last.State, err)
	}
	if last.Owner != "user:ann" || last.Iterations.Accepted != spec.Iterations || last.Aggregates["pi"].N == 0 {
		t.Errorf("owner %s, %+v, results %+v", last.Owner, last.Iterations, last.Aggregates)
	}
	if err := ann.ask(ctx, http.MethodPost, there+"/v1/jobs", api.SubmitRequest{Spec: job.Spec{Name: strings.Repeat("x", 80<<10), Key: "long"}}, nil); !api.IsCode(err, api.CodeTooLarge) {
		t.Errorf("a body of 80 KiB: %v", err)
	}

	// A program of ann's has an access token, until that is revoked.
	lent, err := holder.api.CreateAccess(ctx, api.AccessRequest{Owner: "user:ann", Roles: []string{"submit"}, TTLSeconds: 3600})
	if err != nil {
		t.Fatal(err)
	}
	skt := lent.Secret.Reveal()
	eventually(ctx, t, 30*time.Second, "an access token submits at a gateway", func() error {
		h := http.Header{"Authorization": {"Bearer " + skt}, "Idempotency-Key": {"by token"}, "Content-Type": {"application/json"}}
		text, err := json.Marshal(api.SubmitRequest{Spec: job.Spec{Name: "by-token", Artefact: last.Spec.Artefact, Iterations: 1_000_000, Chunk: 1000}})
		if err != nil {
			return err
		}
		return outsideSend(ctx, http.MethodPost, there+"/v1/jobs", h, text, &again)
	})
	path = there + "/v1/jobs/" + string(again.Job)
	if err := outsideAsk(ctx, http.MethodGet, path, skt, nil, &last); err != nil || last.Owner != "user:ann" || last.Spec.Key != "by token" {
		t.Errorf("seen by the token: %s of %s, %v", last.Name, last.Owner, err)
	}
	if err := bob.ask(ctx, http.MethodGet, path, nil, nil); !api.IsCode(err, api.CodeNotFound) {
		t.Errorf("seen by another: %v", err)
	}
	if err := outsideAsk(ctx, http.MethodPost, path+"/stop", skt, struct{}{}, nil); err != nil {
		t.Errorf("stopped by the token: %v", err)
	}
	if _, err := holder.api.RevokeAccess(ctx, lent.ID); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 30*time.Second, "a token that is revoked is none", func() error {
		if err := outsideAsk(ctx, http.MethodGet, path, skt, nil, nil); !api.IsCode(err, api.CodeUnauthorized) {
			return fmt.Errorf("it is answered: %w", err)
		}
		return nil
	})

	// Signed by the program, for the gateway's own name.
	dir := t.TempDir()
	makeKey := exec.CommandContext(ctx, d.o.Exe, "auth", "key", "--user", "cleo")
	makeKey.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir)
	public, err := makeKey.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.api.SetUser(ctx, "cleo", api.UserRequest{Role: "submitter", Keys: []string{string(public)}}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 30*time.Second, "the program submits at a gateway", func() error {
		text, err := exec.CommandContext(ctx, d.o.Exe, "--socket", there, "--key", filepath.Join(dir, "skein", "cleo.key"), "job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"),
			"--iterations", "1000", "--key", "signed", "--follow", "-o", "json").CombinedOutput()
		if err != nil || !bytes.Contains(text, []byte(`"completed"`)) {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})

	long, err := ann.submit(ctx, there, job.Spec{Name: "long", Key: "long-1", Iterations: 1 << 40, Chunk: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	end := ann.watch(ctx, there, long.Job, true, func(api.Job) {
		if !ended {
			ended = true
			ann.set(ctx, t, holder, true)
		}
	})
	if !api.IsCode(end, api.CodeUnauthorized) {
		t.Errorf("the stream of a user who is disabled: %v", end)
	}
	if err := ann.ask(ctx, http.MethodPost, there+"/v1/jobs/"+string(long.Job)+"/stop", struct{}{}, nil); !api.IsCode(err, api.CodeUnauthorized) {
		t.Errorf("stopped by a user who is disabled: %v", err)
	}
	ann.set(ctx, t, holder, false)
	eventually(ctx, t, 30*time.Second, "ann stops the job", func() error {
		return ann.ask(ctx, http.MethodPost, there+"/v1/jobs/"+string(long.Job)+"/stop", struct{}{}, nil)
	})
	if err := ann.watch(ctx, there, long.Job, false, func(j api.Job) { last = j }); err != nil || last.State != job.Cancelled {
		t.Errorf("stopped by its owner: %s, %v", last.State, err)
	}
	start1(t, first)
	verifyAllHosts(ctx, t, d)
}
