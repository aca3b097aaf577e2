"""The words that invented people and places are made of; any likeness to real ones is chance."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Abeni Ansel Bastien Belka Caro Cyra Davor Delphia Edda Elric Fenna Florin Galen Greta Hadrian "
    "Henna Idris Ilka Joran Juno Kasimir Kerstin Lazlo Livia Maren Milos Nadia Nestor Odile Orrin "
    "Petra Pasco Quill Ramona Rufus Selma Stellan Tamsin Tobias Ulla Urban Vera Viggo Wanda Wim "
    "Xenia Yara Yorick Zelda Zoran"
)
LAST_NAMES = _words(
    "Abernot Alderfen Bellweather Birkholm Castellane Corvale Dunmarrow Dorrit Eastwick Ellerby "
    "Farrowdale Fenwright Galloran Grimsby Hallowell Harkness Inglemoor Isbister Jasperton Joyner "
    "Kettleburn Kirrin Larkspur Lindqvist Marchmont Merriweather Nettlefold Norwyn Oakhurst "
    "Ollander Pemberly Pinkney Quillfeather Quennell Ravenscar Rosenthorn Silverlake Stonebridge "
    "Tarrington Thistlewood Umberlee Upfield Vandermeer Voss Wetherby Winterbourne Yarborough "
    "Yewdale Zellweg Zimmerlin"
)
CITIES = _words(
    "Arvell Brackwater Caldermoss Dunmere Elmhallow Farrowin Glenmirk Harrowfen Inverlyn Jessamy "
    "Kelbrick Larchmere Merrowby Norvale Ostervale Pellam Quarrow Rindale Saltmarch Tollandry"
)
RIVERS = _words(
    "Aldre Bornwash Crayle Dovern Eskit Fleamer Gryfe Humla Isbre Jarl Keskin Lunder Medlar Nairle "
    "Orlow Pidder Quoiler Rothmar Swalen Tevish"
)
TRADES = _words(
    "baker beekeeper blacksmith bookbinder botanist carpenter cartographer chemist clockmaker "
    "dentist gardener glassblower goldsmith judge librarian locksmith mason midwife nurse pilot "
    "potter printer sailor shepherd surveyor tailor teacher translator weaver zoologist"
)
ANIMALS = _words(
    "badger bulldog canary chameleon cockatoo donkey falcon ferret goat goose hamster hedgehog "
    "lizard magpie parrot pigeon pony rabbit raven snake spaniel tortoise turtle wolfhound"
)
INSTRUMENTS = _words(
    "accordion banjo bassoon bugle cello clarinet cornet dulcimer fiddle flute guitar harmonica "
    "harp lute mandolin oboe organ piano sitar trombone trumpet tuba viola zither"
)
DISHES = _words(
    "barley-soup beetroot-salad black-pudding cabbage-rolls carrot-cake cheese-dumplings "
    "chestnut-stew cinnamon-buns fish-pie fried-plantain garlic-prawns lamb-curry lemon-tart "
    "lentil-stew mushroom-risotto onion-soup pear-crumble pea-soup plum-jam potato-pancakes "
    "pumpkin-bread rabbit-stew rice-pudding smoked-eel spinach-pie"
)
MONTHS = _words(
    "January February March April May June July August September October November December"
)
COLOURS = _words(
    "amber beige black blue bronze crimson green grey indigo lilac maroon mustard orange pink "
    "purple red scarlet silver teal turquoise violet white yellow"
)
ADJECTIVES = _words(
    "Ancient Broken Burning Crooked Distant Empty Endless Faithful Forgotten Frozen Gentle Golden "
    "Hidden Hollow Hungry Idle Lonely Nameless Quiet Restless Sleeping Stolen Weary Wild"
)
NOUNS = _words(
    "Anchor Bridge Candle Compass Crown Doorway Ferry Forest Garden Harbour Island Kingdom Ladder "
    "Lantern Meadow Mirror Orchard River Shadow Staircase Thread Tower Voyage Winter"
)
