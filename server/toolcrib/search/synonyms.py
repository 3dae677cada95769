"""Words of everyday software work that mean much the same: what one person creates, another adds.

Knows groups of words only; never knows what is searched or how much a synonym counts.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

_GROUPS = """
create add new make insert generate
delete remove erase drop destroy clear purge
update edit modify change set patch alter
list enumerate all browse show
get fetch retrieve read obtain view
find search lookup query locate discover
send post submit deliver
email mail message gmail inbox
message chat dm text
file document
folder directory
picture image photo
photo camera snapshot
video movie film clip
song music track audio
execute run invoke launch
start launch begin boot
stop halt end terminate kill shutdown
copy duplicate clone
move transfer relocate
rename retitle
merge join combine
compare diff difference
convert transform translate
translate language
calculate compute evaluate math
sum total add
weather forecast temperature climate
map route direction navigation
location place address geocode coordinate
travel trip flight hotel journey vacation
buy purchase order shop
price cost quote rate
stock share ticker equity
money currency cash payment
pay payment charge
invoice bill receipt
customer client
user account member person people
team group organization
company business organization firm
employee staff worker
job career vacancy position employment
event meeting appointment calendar
schedule plan calendar
date time day
reminder alarm notification
notify alert notification
issue ticket bug
task todo
pr pull merge
repository repo git project
branch fork
commit revision change
database db sql table
row record entry
column field attribute
website site page url webpage link web
browser page web tab
internet web online
screenshot capture
click press tap
download fetch save
upload attach import
export save download
install setup deploy
deploy release publish rollout
container docker pod
cluster kubernetes k8s
log trace event
metric monitor telemetry
error failure exception bug
fix repair solve resolve
secret password credential key
permission access role
login signin authenticate auth
encrypt cipher
summary summarize abstract digest
paper article publication research
news headline article
book novel
recipe cook food meal
restaurant dining food
health medical doctor
medicine drug
exercise workout fitness
game play
note memo
comment reply remark
tag label
approve accept confirm
reject decline deny cancel
cancel abort revoke
enable activate
disable deactivate
allow permit grant
chart graph plot diagram
analyze analysis examine inspect
review check audit
verify validate check test
suggest recommend recommendation
explain describe description
info information detail
gift present
house home apartment property estate rent
car vehicle auto automobile driving
kid child children baby
store shop product merchandise
discount coupon deal offer sale promotion
crypto cryptocurrency bitcoin blockchain token nft
horoscope astrology zodiac tarot
quiz exam question trivia
learn study teach education course tutor lesson
essay write writing text content blog
code program script programming developer
podcast episode audio
bank finance financial loan mortgage credit
law legal lawyer attorney
sport team player league match athlete
tv show series television
dataset data statistics
stock finance market investment invest portfolio trading
earning revenue income profit
university college school student
plant garden flower
pet dog cat animal
clothes fashion outfit apparel
vacation holiday
train bus subway transit transport
air flight airline airport
ticket booking reservation book
lyrics song
science scientific academic scholar
keyword seo marketing advertisement ad
domain website dns
resume cv career
wine beer drink cocktail beverage
diet nutrition calorie food
mood emotion feeling mental
story tale narrative fiction
art paint drawing design
logo brand
cheap price affordable
near nearby local location
"""


Synonyms = Mapping[str, Sequence[str]]
"""For a stem the stems that may stand for it."""


def synonyms(stem: Callable[[str], str]) -> Synonyms:
    """Return the table, in stems."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line in _GROUPS.strip().splitlines():
        group = [stem(word) for word in line.split()]
        for each in group:
            found[each] |= dict.fromkeys(other for other in group if other != each)
    return {each: tuple(others) for each, others in found.items()}
