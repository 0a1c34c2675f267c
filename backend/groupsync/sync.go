package groupsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/eventlog/state"
)

const (
	// groupsEvery is the time from one look at jobs.groups_url to the next.
	groupsEvery = time.Minute
	// groupsAnswer bounds one request.
	groupsAnswer = 20 * time.Second
	// maxCredential bounds jobs.groups_credential, in bytes.
	maxCredential = 8 << 10
	// maxETag bounds what is kept and sent again, in bytes; a longer one is ignored.
	maxETag = 256
)

// Options of a Sync; all must be set.
type Options struct {
	// File and URL are as configured now; empty: none.
	File func() string
	URL  func() (url, credential string)
	// Have returns the members of a group in the log, sorted, and who set it.
	Have func(group string) (members []string, actor string)
	// Set has the holder log a group; again says that an error may pass.
	Set    func(ctx context.Context, b event.GroupSet) (again bool, err error)
	Logger zerolog.Logger
}

// Sync takes groups into the log. Groups that neither source names stay as they are.
type Sync struct {
	o      Options
	client *http.Client
	every  time.Duration
	now    func() time.Time
	// again has capacity 1; if it is full the file will be read again anyway.
	again chan struct{}

	mu   sync.Mutex
	held map[string][]Held // by source
	past map[string]past   // by group: what it was of late

	etag, url string // of the latest answer that was taken over; of whoever fetches
}

// New returns a Sync. It starts nothing.
func New(o Options) *Sync {
	return &Sync{
		o: o, every: groupsEvery, now: time.Now, past: map[string]past{}, again: make(chan struct{}, 1),
		client: &http.Client{Timeout: groupsAnswer, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirected: name the address itself in jobs.groups_url")
		}},
	}
}

// Members looks groups up in the fold of a log.
func Members(log interface{ View(func(*state.State)) }) func(group string) (members []string, actor string) {
	return func(group string) (members []string, actor string) {
		log.View(func(s *state.State) {
			g, _ := s.Group(group)
			members, actor = g.Members, g.Actor
		})
		return members, actor
	}
}

// Run takes both sources over, again and again, until ctx ends.
func (g *Sync) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { g.runFile(ctx) })
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		g.remember()
		if url, credential := g.o.URL(); url != "" {
			if err := g.look(ctx, url, credential); err != nil && ctx.Err() == nil {
				g.o.Logger.Warn().Err(err).Msg("groups of jobs.groups_url not taken over: groups left as they are")
			}
		} else {
			g.hold("jobs.groups_url", nil)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (g *Sync) look(ctx context.Context, url, credential string) error {
	sets, etag, err := g.fetch(ctx, url, credential)
	if err != nil || sets == nil {
		return err
	}
	if _, err := g.take(ctx, "jobs.groups_url", sets); err != nil {
		return err
	}
	g.etag, g.url = etag, url
	if len(g.Waiting()) > 0 {
		g.etag = "" // it is looked at again, until an operator has decided
	}
	return nil
}

// fetch asks for the groups; none: they are the same as before.
func (g *Sync) fetch(ctx context.Context, url, credential string) (sets []event.GroupSet, etag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", fmt.Errorf("jobs.groups_url: %w", err)
	}
	if credential != "" {
		secret, err := readCredential(credential)
		if err != nil {
			return nil, "", err
		}
		req.Header.Set("Authorization", "Bearer "+secret.Reveal())
	}
	if url == g.url && g.etag != "" {
		req.Header.Set("If-None-Match", g.etag)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("jobs.groups_url: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil, "", nil
	case http.StatusOK:
	default:
		return nil, "", fmt.Errorf("jobs.groups_url: the server answers %s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, config.MaxGroupsFile+1))
	if err != nil {
		return nil, "", fmt.Errorf("jobs.groups_url: %w", err)
	}
	if sets, err = config.ParseGroups(text); err != nil {
		return nil, "", fmt.Errorf("jobs.groups_url: %w", err)
	}
	if etag = resp.Header.Get("ETag"); len(etag) > maxETag {
		etag = ""
	}
	return sets, etag, nil
}

func readCredential(name string) (config.Secret, error) {
	f, err := os.Open(name)
	if err != nil {
		return config.Secret{}, fmt.Errorf("jobs.groups_credential: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	if err != nil {
		return config.Secret{}, fmt.Errorf("jobs.groups_credential: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(b) > maxCredential || strings.ContainsAny(text, "\r\n") {
		return config.Secret{}, fmt.Errorf("jobs.groups_credential: %s does not hold one line of at most %d bytes", name, maxCredential)
	}
	return config.NewSecret(text), nil
}
