package redis

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/guard"
)

// ask runs a script of what gateways remember of those who ask.
func (s *Store) ask(x *script, args ...string) (answer, error) {
	got, err := s.run(x, args...)
	if errors.Is(err, desk.ErrBusy) {
		return nil, fmt.Errorf("%w: %w", guard.ErrDown, errDown)
	}
	return got, err
}

// counted is how a script counts for a limit.
func counted(l guard.Limit, who string) []string {
	return []string{l.String() + ":" + who, fmt.Sprint(l.Every().Microseconds()), fmt.Sprint(l.Rate().Burst)}
}

// late is the error of a script that said LATE of one of the limits.
func late(got answer, of ...guard.Limit) error {
	n, errN := strconv.Atoi(got.text(1))
	us, errU := strconv.ParseInt(got.text(2), 10, 64)
	if errN != nil || errU != nil || n < 1 || n > len(of) {
		return fmt.Errorf("%w: %.20q, %.20q", errAnswer, got.text(1), got.text(2))
	}
	return &guard.LateError{Limit: of[n-1], Wait: time.Duration(us) * time.Microsecond}
}

// Count implements guard.Guard.
func (s *Store) Count(asks ...guard.Ask) error {
	if len(asks) == 0 {
		return nil
	}
	args, of := make([]string, 0, 4*len(asks)), make([]guard.Limit, len(asks))
	for i, a := range asks {
		how := "take"
		if a.Look {
			how = "look"
		}
		args, of[i] = append(append(args, how), counted(a.Limit, a.Who)...), a.Limit
	}
	got, err := s.ask(s.scripts.guard.count, args...)
	switch {
	case err != nil:
		return err
	case got.what() == "LATE":
		return late(got, of...)
	}
	return nil
}

// ahead is how far the stamp of a signed request may be ahead of the clock of Redis: its
// gateway's clock may be, too.
const ahead = access.Window + maxSkew

// Use implements guard.Guard.
func (s *Store) Use(p access.Proof, _ time.Time) error {
	got, err := s.ask(s.scripts.guard.nonce, p.Key, p.Nonce, fmt.Sprint(p.Time.UnixMilli()), fmt.Sprint(ahead.Milliseconds()), fmt.Sprint(access.Keep.Milliseconds()))
	if err != nil {
		return fmt.Errorf("%w: %w", access.ErrDown, err)
	}
	switch got.what() {
	case "OK":
		return nil
	case "USED":
		return access.ErrUsed
	case "EARLY":
		ms, err := strconv.ParseInt(got.text(1), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", errAnswer, err)
		}
		return &access.EarlyError{After: time.Duration(ms) * time.Millisecond}
	}
	return fmt.Errorf("%w: %.40q", errAnswer, got.what())
}

// Forget implements guard.Guard.
func (s *Store) Forget(p access.Proof) {
	client, err := s.client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	_ = client.Do(ctx, client.B().Del().Key(s.prefix+"nonce:"+p.Key+":"+p.Nonce).Build()).Error() // it ends by itself
}

// First implements guard.Guard.
func (s *Store) First() error {
	_, err := s.ask(s.scripts.guard.first)
	return err
}

// Open implements guard.Guard.
func (s *Store) Open(code guard.Hash, c guard.Claim) error { return s.open(code, c, false) }

func (s *Store) open(code guard.Hash, c guard.Claim, again bool) error {
	got, err := s.ask(s.scripts.guard.open, hex.EncodeToString(code[:]), string(c.Worker), string(c.Key), c.Name, fmt.Sprint(c.Left.Milliseconds()), fmt.Sprint(guard.MaxClaims), flag(again))
	if err == nil && got.what() == "BUSY" {
		err = guard.ErrRoom
	}
	return err
}

// Back implements guard.Guard.
func (s *Store) Back(code guard.Hash, c guard.Claim) {
	if c.Left > 0 {
		_ = s.open(code, c, true) // else the worker asks for another code
	}
}

// Take implements guard.Guard.
func (s *Store) Take(code guard.Hash, by string) (guard.Claim, error) {
	got, err := s.ask(s.scripts.guard.claim, append([]string{hex.EncodeToString(code[:])}, counted(guard.Guess, by)...)...)
	if err != nil {
		return guard.Claim{}, err
	}
	switch got.what() {
	case "OK":
		ms, err := strconv.ParseInt(got.text(4), 10, 64)
		if err != nil {
			return guard.Claim{}, fmt.Errorf("%w: %w", errAnswer, err)
		}
		return guard.Claim{
			Worker: cluster.NodeID(got.text(1)), Key: []byte(got.text(2)), Name: got.text(3), Left: time.Duration(ms) * time.Millisecond,
		}, nil
	case "NONE":
		return guard.Claim{}, guard.ErrNoClaim
	case "LATE":
		return guard.Claim{}, late(got, guard.Guess)
	}
	return guard.Claim{}, fmt.Errorf("%w: %.40q", errAnswer, got.what())
}

// Waiting implements guard.Guard.
func (s *Store) Waiting(worker cluster.NodeID) (key []byte, ok bool, err error) {
	client, err := s.client()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		key, err = client.Do(ctx, client.B().Hget().Key(s.prefix+"claimof:"+string(worker)).Field("key").Build()).AsBytes()
	}
	switch {
	case rueidis.IsRedisNil(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w", guard.ErrDown, errDown)
	}
	return key, true, nil
}

// Claims implements guard.Guard; it is some seconds old.
func (s *Store) Claims() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims
}
