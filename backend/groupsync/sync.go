package groupsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
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
)

// Sync takes groups into the log.
type Sync struct {
	from   func() (url, credential string) // as configured now; empty: none
	set    func(ctx context.Context, sets []event.GroupSet) error
	have   func(group string) []string // members, sorted
	client *http.Client
	every  time.Duration
	logger zerolog.Logger

	mu   sync.Mutex
	held []string // groups that wait for an operator

	etag, url string // of the latest answer that was taken over
}

// New returns a Sync that fetches from there, holds the groups against those that
// have tells, and has them set.
func New(from func() (url, credential string), have func(group string) []string,
	set func(ctx context.Context, sets []event.GroupSet) error, logger zerolog.Logger,
) *Sync {
	return &Sync{
		from: from, have: have, set: set, every: groupsEvery, logger: logger,
		client: &http.Client{Timeout: groupsAnswer, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirected: name the address itself in jobs.groups_url")
		}},
	}
}

// Members looks groups up in the fold of a log.
func Members(log interface{ View(func(*state.State)) }) func(group string) []string {
	return func(group string) (members []string) {
		log.View(func(s *state.State) {
			g, _ := s.Group(group)
			members = g.Members
		})
		return members
	}
}

// Reasons is Waiting, if there is anything to say; a nil Sync has nothing.
func (g *Sync) Reasons() []string {
	if g == nil || g.Waiting() == "" {
		return nil
	}
	return []string{g.Waiting()}
}

// Waiting says which groups wait for an operator.
func (g *Sync) Waiting() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		return ""
	}
	return "jobs.groups_url: more than half of the members would leave group " + strings.Join(g.held, ", ") +
		"; it stays until `skein group set` says who belongs to it"
}

// Run looks again and again until ctx ends.
func (g *Sync) Run(ctx context.Context) error {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		if url, credential := g.from(); url != "" {
			if err := g.look(ctx, url, credential); err != nil && ctx.Err() == nil {
				g.logger.Warn().Err(err).Msg("groups of jobs.groups_url not taken over: groups left as they are")
			}
		} else {
			g.hold(nil)
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
	var held []string
	sets = slices.DeleteFunc(sets, func(b event.GroupSet) bool {
		if !dropsHalf(g.have(b.Group), b.Members) {
			return false
		}
		held = append(held, b.Group)
		return true
	})
	g.hold(held)
	if err := g.set(ctx, sets); err != nil {
		return err
	}
	if len(held) == 0 { // else it is looked at again, until an operator has decided
		g.etag, g.url = etag, url
	}
	return nil
}

func (g *Sync) hold(groups []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(groups) > 0 && !slices.Equal(groups, g.held) {
		g.logger.Warn().Strs("groups", groups).Msg("more than half of the members would leave: groups wait for an operator")
	}
	g.held = groups
}

// dropsHalf reports that more than half of have are not in next; both are sorted.
func dropsHalf(have, next []string) bool {
	gone := 0
	for _, m := range have {
		if _, stays := slices.BinarySearch(next, m); !stays {
			gone++
		}
	}
	return 2*gone > len(have)
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
	return sets, resp.Header.Get("ETag"), nil
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
