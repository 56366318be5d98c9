package boot

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

type staticCredentials struct{ value aws.Credentials }

func (s staticCredentials) Retrieve(context.Context) (aws.Credentials, error) { return s.value, nil }
