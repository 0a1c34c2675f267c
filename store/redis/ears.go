package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/skein-project/skein/gateway/channel"
)

// Keys of who listens, and for how long what is in them counts.
const (
	earsKey = "ears" // zset: a channel, by when nobody listens any more unless it says so again
	askKey  = "ask"  // zset: a channel, by when somebody began to listen last
	tellKey = "tell" // the gateway that tells those who listen
	// earLife is longer than channel.Life: who asks whether somebody may listen on does so some
	// time after it.
	earLife  = 3 * channel.Life
	tellLife = 5 * time.Second
)

// Hear notes that somebody listens to a channel; anew: it begins to. false: too many channels
// are listened to.
func (s *Store) Hear(name string, anew bool) (bool, error) {
	client, err := s.client()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	now := s.o.Wall().UnixMilli()
	if anew {
		all := client.DoMulti(ctx, client.B().Zcard().Key(s.prefix+earsKey).Build(), client.B().Zscore().Key(s.prefix+earsKey).Member(name).Build())
		n, err := all[0].AsInt64()
		if err != nil {
			return false, s.deaf(err)
		}
		if n >= channel.MaxHeardApart && rueidis.IsRedisNil(all[1].Error()) {
			return false, nil
		}
	}
	list := rueidis.Commands{client.B().Zadd().Key(s.prefix+earsKey).ScoreMember().ScoreMember(float64(now+earLife.Milliseconds()), name).Build()}
	if anew {
		list = append(list, client.B().Zadd().Key(s.prefix+askKey).ScoreMember().ScoreMember(float64(now), name).Build())
	}
	for _, r := range client.DoMulti(ctx, list...) {
		if err := r.Error(); err != nil {
			return false, s.deaf(err)
		}
	}
	return true, nil
}

// Heard are the channels to which somebody listens, if this gateway is the one that tells them:
// the first that asked, until it has not for some seconds.
func (s *Store) Heard() ([]channel.Ear, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	self := string(s.o.Self)
	got := client.DoMulti(ctx,
		client.B().Set().Key(s.prefix+tellKey).Value(self).Nx().PxMilliseconds(tellLife.Milliseconds()).Build(),
		client.B().Get().Key(s.prefix+tellKey).Build(),
	)
	if err := got[0].Error(); err != nil && !rueidis.IsRedisNil(err) {
		return nil, s.deaf(err)
	}
	who, err := got[1].ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, s.deaf(err)
	}
	if who != self {
		return nil, nil
	}
	// Where it has become another's between these two, both tell for a moment, and what the one
	// says is as true as what the other does.
	now := strconv.FormatInt(s.o.Wall().UnixMilli(), 10)
	got = client.DoMulti(ctx,
		client.B().Pexpire().Key(s.prefix+tellKey).Milliseconds(tellLife.Milliseconds()).Build(),
		client.B().Zremrangebyscore().Key(s.prefix+earsKey).Min("-inf").Max(now).Build(),
		client.B().Zremrangebyscore().Key(s.prefix+askKey).Min("-inf").Max(strconv.FormatInt(s.o.Wall().Add(-earLife).UnixMilli(), 10)).Build(),
		client.B().Zrange().Key(s.prefix+earsKey).Min("0").Max("-1").Build(),
		client.B().Zrange().Key(s.prefix+askKey).Min("0").Max("-1").Withscores().Build(),
	)
	for _, r := range got {
		if err := r.Error(); err != nil {
			return nil, s.deaf(err)
		}
	}
	names, err := got[3].AsStrSlice()
	if err != nil {
		return nil, s.deaf(err)
	}
	scores, err := got[4].AsZScores()
	if err != nil {
		return nil, s.deaf(err)
	}
	asked := make(map[string]uint64, len(scores))
	for _, x := range scores {
		asked[x.Member] = uint64(x.Score)
	}
	out := make([]channel.Ear, len(names))
	for i, name := range names {
		out[i] = channel.Ear{Name: name, Asked: asked[name]}
	}
	return out, nil
}

func (s *Store) deaf(err error) error {
	s.metrics.failed.Inc()
	s.log.Debug().Err(err).Msg("Redis did not answer who listens")
	return fmt.Errorf("who listens: %w", errDown)
}
