#pragma once

/// The three lines that make a training loop a distributed one:
///
///     auto world = lockstep::init(argc, argv);
///     lockstep::DistributedDataParallel ddp(model, world);
///     lockstep::DistributedSampler sampler(dataset_size, world);

#include "lockstep/ddp.h"
#include "lockstep/error.h"
#include "lockstep/gradient_hook.h"
#include "lockstep/main.h"
#include "lockstep/sampler.h"
#include "lockstep/sync_batch_norm.h"
#include "lockstep/world.h"
